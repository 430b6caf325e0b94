"""A bounded cache in memory of the session keys that this node has unwrapped: the hot path of a receiver.

The first message under a session key costs one verification and one unwrapping; later ones cost a look-up and one pass
of AES-GCM. The cache key contains all data to which the wrap is bound, so a hit proves the same as a new check.
"""

from collections import OrderedDict
from collections.abc import Callable

from semq.seal.errors import KeyUnknown, SealBroken, SealMalformed
from semq.seal.keys import PrivateKey, PublicKey, unwrap, verify
from semq.seal.session import SECRET_LENGTH, Opening, session_id_of
from semq.seal.token import SealScope, check_alg, context, read_token, signed

OPENED_MAX = 4096


def unwrapped(
    text: str,
    alg: str,
    key_id: str,
    source: str,
    target: str,
    resent: str,
    own: Callable[[str], PrivateKey | None],
    signer: Callable[[str, str], PublicKey],
) -> bytes:
    """Return the session key in @SessionKey.

    ``own`` finds a private key of this node by its id; ``signer`` finds the key of an institution by address and id,
    and raises SignerUnknown. Raises SealMalformed, KeyUnknown (its text names the key, for the sender), SignatureWrong,
    SealBroken.
    """
    check_alg(alg)
    token = read_token(text)
    key = own(key_id)
    if key is None:
        raise KeyUnknown(f"The session key was wrapped for key {key_id[:64]}, which this node does not have.")
    context_ = context(SealScope(alg, key_id, token.signer, source, target, resent), token.session_id)
    verify(signer(source, token.signer), token.signature, signed(context_, token.wrapped))
    secret = unwrap(key, alg, token.wrapped, context_)
    if len(secret) != SECRET_LENGTH or session_id_of(secret) != token.session_id:
        raise SealBroken("The session key does not match its session id.")
    return secret


class OpenedKeys:
    """The cache of unwrapped session keys; the least recently used key is removed first."""

    def __init__(
        self,
        own: Callable[[str], PrivateKey | None],
        signer: Callable[[str, str], PublicKey],
        most: int = OPENED_MAX,
    ) -> None:
        self._own = own
        self._signer = signer
        self._most = most
        self._opened: OrderedDict[tuple[str, str, str, str, str, str], Opening] = OrderedDict()

    def get(self, text: str, alg: str, key_id: str, source: str, target: str, resent: str = "") -> Opening:
        """Return the session key of a message. Raises as ``unwrapped`` does; SealMalformed if @SessionKey is
        missing.
        """
        bound = (text, alg, key_id, source, target, resent)
        opening = self._opened.get(bound)
        if opening is None:
            if not text:
                raise SealMalformed("The sealed document has no @SessionKey.")
            opening = self._opened[bound] = Opening(unwrapped(*bound, self._own, self._signer))
            if len(self._opened) > self._most:
                self._opened.popitem(last=False)
        else:
            self._opened.move_to_end(bound)
        return opening

    def forget(self) -> None:
        """Clear the cache, after a key of this node or a partner's certificate was revoked."""
        self._opened.clear()

    def __len__(self) -> int:
        return len(self._opened)
