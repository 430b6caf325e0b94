"""A bounded cache in memory of the session keys that this node has unwrapped.

The cache key contains all data to which a wrapped key is bound, so a hit proves the same as a new check.
"""

from collections import OrderedDict
from collections.abc import Callable

from semq.seal.errors import KeyUnknown, SealBroken, SealMalformed
from semq.seal.keys import PrivateKey, PublicKey, unwrap, verify
from semq.seal.session import SECRET_LENGTH, OpeningKey, session_id_of
from semq.seal.token import SealScope, check_alg, read_token, signature_message, wrap_context

OPENED_MAX = 4096  # session keys in the cache

FindOwnKey = Callable[[str], PrivateKey | None]  # a private key of this node by its key id, or None
FindSignerKey = Callable[[str, str], PublicKey]  # a node's key by address and key id; raises SignerUnknown


def unwrap_session_key(
    text: str,
    alg: str,
    key_id: str,
    source: str,
    target: str,
    resent: str,
    find_own_key: FindOwnKey,
    find_signer_key: FindSignerKey,
) -> bytes:
    """Return the session key in @SessionKey (``text``). ``alg`` to ``resent`` are fields of ``SealScope``.

    Raises SealMalformed, KeyUnknown (its text names the key, for the sender), SignerUnknown, SignatureWrong or
    SealBroken.
    """
    check_alg(alg)
    token = read_token(text)
    key = find_own_key(key_id)
    if key is None:
        raise KeyUnknown(f"The session key was wrapped for key {key_id[:64]}, which this node does not have.")
    context = wrap_context(SealScope(alg, key_id, token.signer_key_id, source, target, resent), token.session_id)
    verify(find_signer_key(source, token.signer_key_id), token.signature, signature_message(context, token.wrapped))
    secret = unwrap(key, alg, token.wrapped, context)
    if len(secret) != SECRET_LENGTH or session_id_of(secret) != token.session_id:
        raise SealBroken("The session key does not match its session id.")
    return secret


class OpenedKeys:
    """The cache of unwrapped session keys; the least recently used key is removed first."""

    def __init__(self, find_own_key: FindOwnKey, find_signer_key: FindSignerKey, opened_max: int = OPENED_MAX) -> None:
        self._find_own_key = find_own_key
        self._find_signer_key = find_signer_key
        self._opened_max = opened_max
        self._opened: OrderedDict[tuple[str, str, str, str, str, str], OpeningKey] = OrderedDict()

    def get(self, text: str, alg: str, key_id: str, source: str, target: str, resent: str = "") -> OpeningKey:
        """Return the session key of a message, ready to open bodies. Raises the errors of ``unwrap_session_key``."""
        cache_key = (text, alg, key_id, source, target, resent)
        opening = self._opened.get(cache_key)
        if opening is None:
            if not text:
                raise SealMalformed("The sealed document has no @SessionKey.")
            secret = unwrap_session_key(*cache_key, self._find_own_key, self._find_signer_key)
            opening = self._opened[cache_key] = OpeningKey(secret)
            if len(self._opened) > self._opened_max:
                self._opened.popitem(last=False)
        else:
            self._opened.move_to_end(cache_key)
        return opening

    def forget(self) -> None:
        """Clear the cache, after the known certificates have changed."""
        self._opened.clear()

    def __len__(self) -> int:
        return len(self._opened)
