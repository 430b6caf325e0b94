"""The HTTP server: its listening socket, TLS, and the end of its connections."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from semq.config.web import HttpSection
from semq.errors import Unavailable, unusable_path_of
from semq.transport.handshakes import Handshakes
from semq.transport.places import PlaceLimits, Places
from semq.transport.tls_files import TlsFiles, no_passphrase
from semq.web.errors import WebPortTaken
from semq.web.transport.connection import Connection
from semq.web.transport.failures import problem

log = structlog.get_logger("semq.web")
BACKLOG = 1024  # connections that wait to be accepted
HANDSHAKE_S = 10.0  # longest TLS handshake
KEEP_ALIVE_S = 75  # longest idle time of a connection
SURPLUS = 8  # this part of the connections, more than permitted, gets the answer 503 while all others are busy
GRACE_S = 5.0  # longest wait for requests in progress when the server stops
ANSWER_S = 1.0  # longest wait for the answers to those that are then ended


class Server:
    """A server for one application."""

    def __init__(self, http: HttpSection, app: ASGIApp) -> None:
        self._http = http
        self._config = Config(
            app=_answering(app), http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=http.max_connections + 1,  # uvicorn answers 503 at this number
        )  # fmt: skip
        self._state = ServerState()
        surplus = max(1, http.max_connections // SURPLUS)
        self.places = Places(lambda: PlaceLimits(http.max_connections, http.max_connections_per_address, surplus))
        self._listening: asyncio.Server | None = None  #: without TLS
        self._handshakes: Handshakes | None = None  #: with TLS
        self._date_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises WebPortTaken, UnusablePath."""
        self._config.load()
        new_connection = partial(
            Connection, limits=self._http, places=self.places, config=self._config, server_state=self._state,
            app_state={},
        )  # fmt: skip
        tls = tls_of(self._http)
        try:
            if tls is not None:
                self._handshakes = Handshakes(self.places, tls, HANDSHAKE_S, new_connection)
                await self._handshakes.start(self._http.host, self._http.port, BACKLOG)
            else:
                self._listening = await asyncio.get_running_loop().create_server(
                    new_connection, self._http.host, self._http.port, backlog=BACKLOG, reuse_address=True
                )
        except OSError as error:
            fault = error.strerror or str(error)
            raise WebPortTaken(host=self._http.host, port=self._http.port, fault=fault) from error
        self._date_task = asyncio.get_running_loop().create_task(self._refresh_date())

    async def stop(self) -> None:
        """Stop listening, wait at most GRACE_S for requests in progress, answer the others, close all connections."""
        if self._listening is not None:
            self._listening.close()
        if self._handshakes is not None:
            self._handshakes.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=GRACE_S)
        ended = set(self._state.tasks)
        for task in ended:
            task.cancel()
        if ended:
            await asyncio.wait(ended, timeout=ANSWER_S)
        for connection in list(self._state.connections):
            if not connection.transport.is_closing():  # asyncio fails at a TLS transport that has ended
                connection.transport.abort()
        if self._date_task is not None:
            self._date_task.cancel()
            await asyncio.gather(self._date_task, return_exceptions=True)

    @property
    def port(self) -> int:
        if self._handshakes is not None:
            return self._handshakes.port or self._http.port
        assert self._listening is not None
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return address_of(self._http, self.port)

    async def _refresh_date(self) -> None:
        """Set the header Date of all answers, once a second."""
        while True:
            self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(1.0)


def _answering(app: ASGIApp) -> ASGIApp:
    """Return an application that answers a request which ends with the server: the client may repeat it."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        is_begun = False

        async def noting(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await app(scope, receive, noting)
        except asyncio.CancelledError:
            if is_begun:
                raise
            await problem(Unavailable("The HTTP server was stopped."), scope["path"])(scope, receive, send)

    return answering


def address_of(http: HttpSection, port: int) -> str:
    """Return the address for browsers, without a slash at its end."""
    if http.url:
        return http.url.rstrip("/")
    host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(http.host, http.host)
    return f"{'https' if http.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def tls_of(http: HttpSection) -> TlsFiles | None:
    """Return the TLS context of the server; None without a certificate. Raises UnusablePath."""
    if http.certificate is None:
        return None
    return TlsFiles((http.certificate, http.key, http.client_authorities), partial(_context, http))


def _context(http: HttpSection) -> ssl.SSLContext:
    assert http.certificate is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        with _pem(http.certificate, "not a certificate with its key"):
            context.load_cert_chain(http.certificate, http.key, password=no_passphrase)
        if http.client_authorities is not None:
            with _pem(http.client_authorities, "not certificates of authorities"):
                context.load_verify_locations(http.client_authorities)
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as error:
        raise unusable_path_of(error) or error from error
    return context


@contextmanager
def _pem(path: object, fault: str) -> Iterator[None]:
    """Replace an OSError by one that names the file and the fault."""
    try:
        yield
    except OSError as error:  # SSLError, or an error of the file system; neither names the file
        reason = getattr(error, "reason", None) or error.strerror
        raise OSError(0, f"{fault}: {reason}", str(path)) from error
