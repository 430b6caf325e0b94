"""The content of @SessionKey: a session key wrapped for its receiver and signed by its sender, as text.

    1.<session id>.<wrapped>.<key id of the signer>.<signature>        bytes in URL-safe base64 without padding

The wrapped key is bound to its context (``SealScope`` and session id): if it is copied to another pair of institutions,
another key or another resent document, it can be neither unwrapped nor verified.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from semq.seal.canonical import canonical
from semq.seal.errors import SealMalformed
from semq.seal.keys import ALGORITHMS

VERSION = "1"


class SealScope(NamedTuple):
    """The algorithm, keys and parties to which a wrapped key is bound."""

    alg: str
    key_id: str  #: id of the receiver's key
    signer_key_id: str  #: id of the sender's key
    source: str  #: address of the sender's node
    target: str  #: address of the receiver's node
    resent: str = ""  #: for a resent document, both messages (``engine.secrecy.binding.sealed_as``); otherwise empty


class SessionToken(NamedTuple):
    """The parts of @SessionKey."""

    session_id: bytes
    wrapped: bytes
    signer_key_id: str
    signature: bytes


def wrap_context(scope: SealScope, session_id: bytes) -> bytes:
    """Return the data that authenticates a wrapped session key."""
    return canonical("semq session key 1", *scope, session_id)


def signature_message(context: bytes, wrapped: bytes) -> bytes:
    """Return the data that the sender signs for a wrap."""
    return canonical("semq session key signature 1", context, wrapped)


def write_token(token: SessionToken) -> str:
    """Return the text of @SessionKey."""
    parts = (text_of(token.session_id), text_of(token.wrapped), token.signer_key_id, text_of(token.signature))
    return ".".join((VERSION, *parts))


def read_token(text: str) -> SessionToken:
    """Read the parts of @SessionKey. Raises SealMalformed."""
    parts = text.split(".")
    if len(parts) != 5 or parts[0] != VERSION:
        raise SealMalformed("@SessionKey has an unknown form.", form=parts[0][:20])
    try:
        return SessionToken(bytes_of(parts[1]), bytes_of(parts[2]), parts[3], bytes_of(parts[4]))
    except ValueError as error:
        raise SealMalformed("@SessionKey is not base64.") from error


def check_alg(alg: str) -> None:
    """Check that this version supports an algorithm. Raises SealMalformed."""
    if alg not in ALGORITHMS:
        raise SealMalformed("The algorithm is unknown.", alg=alg[:60])


def text_of(data: bytes) -> str:
    """Return bytes as text: URL-safe base64 without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text. Raises ValueError for any text that ``text_of`` does not produce."""
    if not text.isascii():
        raise ValueError(text[:40])
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    # Only one text is valid for a token, so that variants of it cannot fill caches whose keys are texts.
    if text_of(data) != text:
        raise ValueError(text[:40])
    return data
