"""Opening of connections to AMQP servers: one function, one attempt. The caller decides when to retry."""

import asyncio
import ssl
from collections.abc import Callable

from msgspec import Struct, field

from semq import __version__
from semq.amqp import sasl
from semq.amqp.connection.client import ClientConnection
from semq.amqp.errors import Broken
from semq.amqp.limits import ConnectionLimits
from semq.amqp.wire import Table
from semq.clock import Clock
from semq.transport.client import ClientLink
from semq.transport.errors import DialFailed, LinkLost, NotTrusted
from semq.transport.link import SocketLink
from semq.transport.peer import PeerInfo
from semq.transport.tls_files import TlsFiles, present
from semq.transport.turn import Turn

PRODUCT = "SEMQ"  # the product name that nodes announce, as servers and as clients
# Results of OpenSSL's verification that say nothing against the authority (X509_V_ERR_…)
OUT_OF_DATE = frozenset({9, 10})  # CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
OTHER_HOST = frozenset({62, 64})  # HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH


class DialConfig(Struct, frozen=True):
    """Address and login of a connection. Without a password the login is by certificate (EXTERNAL)."""

    host: str
    port: int = 5672
    virtual_host: str = "/"
    user: str = ""
    password: str | None = None
    tls: ssl.SSLContext | TlsFiles | None = None
    server_hostname: str | None = None  #: the name for which the server's certificate must be valid; None: ``host``
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    connect_s: float = 10.0  #: time limit until the virtual host is open
    client_properties: Table = field(default_factory=dict)
    product: str | None = None  #: product name that the server must announce before the login; None: any
    check: Callable[[PeerInfo], None] = lambda _: None
    """checks the peer before anything is sent to it; raises SemqError to abort"""

    def __repr__(self) -> str:
        return f"DialConfig({self.user}@{self.host}:{self.port}{self.virtual_host})"  # without the password


async def dial(config: DialConfig, clock: Clock, turn: Turn) -> ClientLink:
    """Connect, log in and open the virtual host.

    Raises DialFailed if no connection is made; its subclass NotTrusted if one end does not trust the other end's
    authority. Raises AmqpError if the server refuses the login or the virtual host, ForeignBroker if the server is not
    the product that ``config`` demands, and the error raised by ``config.check``.
    """
    owner = ClientLink(_machine(config), config.check, config.product)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(config.connect_s):
            await loop.create_connection(
                lambda: SocketLink(owner.machine, owner, clock, turn),
                config.host,
                config.port,
                ssl=present(config.tls) if config.tls is not None else None,
                server_hostname=config.server_hostname if config.tls else None,
            )
            await owner.wait_opened()
    except (OSError, TimeoutError, LinkLost, Broken) as error:
        _give_up(owner)
        error_class = NotTrusted if _is_distrust(error) else DialFailed
        raise error_class(host=config.host, port=config.port, cause=_cause(error, config.connect_s)) from error
    except BaseException:
        _give_up(owner)
        raise
    return owner


def _cause(error: Exception, connect_s: float) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:  # raised by the time limit, not by the system
        return f"no answer within {connect_s:g} s"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error)


def _machine(config: DialConfig) -> ClientConnection:
    external = config.password is None
    return ClientConnection(
        config.limits,
        mechanism="EXTERNAL" if external else "PLAIN",
        response=b"" if external else sasl.plain(config.user, config.password or ""),
        virtual_host=config.virtual_host,
        client_properties={"product": PRODUCT, "version": __version__, **config.client_properties},
    )


def _is_distrust(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_code not in OUT_OF_DATE | OTHER_HOST
    return cause is not None and "UNKNOWN_CA" in (cause.reason or str(cause)).upper()


def _give_up(owner: ClientLink) -> None:
    if owner.has_link:
        owner.link.abort()
