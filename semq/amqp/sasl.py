"""The three supported SASL mechanisms: readers of a client's response, and the response for PLAIN.

Source: RFC 4616 (PLAIN), RFC 4422 appendix A (EXTERNAL), RabbitMQ for AMQPLAIN: a field table without its length, with
LOGIN and PASSWORD in it.
"""

from collections.abc import Callable
from typing import NamedTuple

from semq.amqp.errors import CommandInvalid, SyntaxFault
from semq.amqp.wire import decode_table, long_string


class Credentials(NamedTuple):
    """A user name and its proof. ``password`` is None if another layer authenticates (EXTERNAL: the certificate)."""

    user: str
    password: bytes | None
    identity: str = ""  # the identity to act as; empty: the user's own

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, identity={self.identity!r})"


def plain(user: str, password: str) -> bytes:
    """Return the response of PLAIN."""
    return b"\0%b\0%b" % (user.encode(), password.encode())


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise SyntaxFault("the name in the login is not UTF-8") from error


def _read_plain(response: bytes) -> Credentials:
    identity, *login = response.split(b"\0", 2)
    if len(login) != 2 or not login[0]:
        raise SyntaxFault("the response of PLAIN is not identity, user and password")
    return Credentials(_text(login[0]), login[1], _text(identity))


def _read_amqplain(response: bytes) -> Credentials:
    table, _ = decode_table(long_string(response), depth=1)
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str | bytes):
        raise SyntaxFault("the response of AMQPLAIN has no LOGIN and PASSWORD")
    return Credentials(user, password.encode() if isinstance(password, str) else password)


def _read_external(response: bytes) -> Credentials:
    return Credentials(_text(response), None)


READERS: dict[str, Callable[[bytes], Credentials]] = {
    "PLAIN": _read_plain,
    "AMQPLAIN": _read_amqplain,
    "EXTERNAL": _read_external,
}


def read(mechanism: str, response: bytes) -> Credentials:
    """Read the credentials in a response. Raises ``CommandInvalid`` for an unknown mechanism, ``SyntaxFault`` or
    ``FrameError`` for a malformed response.
    """
    reader = READERS.get(mechanism)
    if reader is None:
        raise CommandInvalid(f"the mechanism {mechanism} is unknown")
    return reader(response)
