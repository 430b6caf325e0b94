"""One connection to a node: opened on first use, reopened after a loss with growing pauses.

Concurrent callers wait for one dial. Each caller passes a deadline, so that an operation survives a restart of the node
and never waits without limit.
"""

import asyncio
import ssl
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from semq.amqp.errors import AccessRefused, AmqpError, InvalidPath, NotAllowed, PeerGone
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.app.errors import BadUrl, LoginRefused, NodeUnreachable
from semq.clock import Clock
from semq.errors import SemqError, Unavailable
from semq.transport.client import ClientLink
from semq.transport.dialer import OTHER_HOST, OUT_OF_DATE, PRODUCT, DialConfig, dial
from semq.transport.errors import DialFailed, LinkLost
from semq.transport.turn import Turn
from semq.umx_t import retry

PORTS = {"amqp": 5672, "amqps": 5671}
HEARTBEAT_S = 10
SPOOLED_FROM = 8 << 20  # bytes; bodies of at least this size go to files
ARRIVING_MAX = 1 << 31  # bytes of all smaller bodies that are arriving
RETRY_S_MIN, RETRY_S_MAX = 0.1, 2.0  # pauses between two attempts to connect

RENEW = "Compare the clocks of both machines; renew the certificate of the node if it has expired (`semq cert renew`)."
NAME_THE_HOST = (
    "Use a host name of the node's certificate in the URL; or give it a certificate with this name: a hub by tls.names,"
    " another node by a new enrolment, with a token of `semq hub nodes token ID --name HOST`."
)
NAME_THE_AUTHORITY = (
    "Write the file of the node's authority into the URL: `amqps://…?cafile=FILE`. On the machine of the node,"
    " `semq cert trust --pem --config FILE` prints it. If the URL names a file, it is of another or former authority."
)
NO_TLS = "This port has no TLS: write amqp:// instead of amqps://, or the TLS port of the node."
PERHAPS_TLS = (
    "If this is a TLS port (amqp.tls), write `amqps://…?cafile=FILE` instead of amqp://. Otherwise look at the log of"
    " the node: it may have reached a limit of its connections."
)
LASTING = (RENEW, NAME_THE_HOST, NAME_THE_AUTHORITY, NO_TLS)  # remedies of faults that another attempt does not end


def read_url(url: str) -> DialConfig:
    """Return address and login of ``amqp://user:password@host:port/vhost``. Raises BadUrl, which hides the password.

    With ``amqps://`` the certificate of the node must name the host and be signed by an authority of the system, or of
    the file in ``?cafile=``.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text would show a part of a password that contains / or letters outside ASCII
        raise BadUrl("The address of the node has no valid host and port; write special characters as %XX.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise BadUrl(scheme=parts.scheme, host=parts.hostname or "")
    return DialConfig(
        product=PRODUCT,
        host=parts.hostname,
        port=port or PORTS[parts.scheme],
        virtual_host=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password if parts.password is not None else "guest"),
        tls=_context(parts) if parts.scheme == "amqps" else None,
        server_hostname=parts.hostname,
        limits=ConnectionLimits(
            heartbeat=HEARTBEAT_S, body_max=ANY_SIZE, arriving_max=ARRIVING_MAX, stream_from=SPOOLED_FROM
        ),
        client_properties={"product": "SEMQ client"},
    )


def _context(parts: SplitResult) -> ssl.SSLContext:
    options = dict(parse_qsl(parts.query))
    cafile = options.pop("cafile", None)
    if options:
        raise BadUrl("There is no such option.", option=min(options))
    try:
        context = ssl.create_default_context(cafile=cafile)
    except OSError as error:  # also ssl.SSLError
        raise BadUrl("The authorities cannot be read.", cafile=str(cafile), fault=str(error)).with_remedy(
            "?cafile= names a PEM file of the authorities that sign the node's certificate (`semq cert trust --pem`"
            " prints it). A hub creates it at its first start; an institution's node has it once it is enrolled."
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class NodeConnection:
    """The connection to one node."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.clock = clock
        self._config = read_url(url)
        self._turn: Turn | None = None
        self._client: ClientLink | None = None
        self._dialling = asyncio.Lock()
        self._is_closed = False

    @property
    def user(self) -> str:
        return self._config.user

    @property
    def address(self) -> str:
        return f"{self._config.host}:{self._config.port}"

    @property
    def node(self) -> str:
        """The node's announced name, for instance "1.10008"; empty before a connection or without an announcement."""
        return "" if self._client is None else str(self._client.machine.peer_properties.get("cluster_name", ""))

    def deadline(self, timeout_s: float) -> float:
        """Return the monotonic time ``timeout_s`` from now."""
        return self.clock.monotonic() + timeout_s

    async def connection(self, until: float, *, once: bool = False) -> ClientLink:
        """Return an open connection; dial if necessary, repeatedly until the given monotonic time, or only ``once``.

        Raises NodeUnreachable, LoginRefused, or ForeignBroker if another product answers.
        """
        try:
            async with asyncio.timeout(max(until - self.clock.monotonic(), 0.0)):
                await self._dialling.acquire()
        except TimeoutError as error:
            cause = "another request of this client was still connecting"
            raise NodeUnreachable(address=self.address, cause=cause) from error
        try:
            return await self._open_until(until, once=once)
        finally:
            self._dialling.release()

    async def _open_until(self, until: float, *, once: bool) -> ClientLink:
        attempt = 0
        while self._client is None or not self._client.is_open:
            if self._is_closed:
                raise NodeUnreachable("The client is closed.", address=self.address)
            attempt += 1
            try:
                self._client = await self._dial(until)
            except Unavailable as error:
                pause = retry.backoff(attempt, RETRY_S_MIN, RETRY_S_MAX, self.clock.random())
                remedy = _remedy(error, is_tls=self._config.tls is not None)
                if once or remedy in LASTING or self.clock.monotonic() + pause >= until:
                    unreachable = NodeUnreachable(address=self.address, cause=_cause(error))
                    raise (unreachable.with_remedy(remedy) if remedy else unreachable) from error
                await asyncio.sleep(pause)
        return self._client

    async def close(self) -> None:
        self._is_closed = True
        if self._client is not None:
            await self._client.close()

    async def _dial(self, until: float) -> ClientLink:
        self._turn = self._turn or Turn()
        left_s = max(until - self.clock.monotonic(), 0.1)
        try:
            async with asyncio.timeout(left_s):
                client = await dial(self._config, self.clock, self._turn)
                client.keeps_large_bodies = True
                if self._is_closed:  # by another task, during the dial
                    await client.close()
                return client
        except TimeoutError as error:
            raise DialFailed(host=self._config.host, port=self._config.port, cause="timeout") from error
        except (AccessRefused, InvalidPath, NotAllowed) as error:
            raise LoginRefused(
                address=self.address, user=self._config.user, virtual_host=self._config.virtual_host, cause=error.text
            ) from error
        except AmqpError as error:
            # The node is stopping, or another program listens there: both may be temporary.
            raise DialFailed(host=self._config.host, port=self._config.port, cause=str(error)) from error


def _cause(error: SemqError) -> str:
    return str(error.facts.get("cause", error.text))


def _remedy(error: SemqError, *, is_tls: bool) -> str | None:
    """Return the remedy for a failed attempt that has to do with TLS, else None."""
    match error.__cause__:
        case ssl.SSLCertVerificationError(verify_code=code) if code in OUT_OF_DATE:
            return RENEW
        case ssl.SSLCertVerificationError(verify_code=code) if code in OTHER_HOST:
            return NAME_THE_HOST
        case ssl.SSLCertVerificationError():
            return NAME_THE_AUTHORITY
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return NO_TLS
        case PeerGone() | LinkLost() | ConnectionResetError() if not is_tls:
            return PERHAPS_TLS
        case _:
            return None
