"""One HTTP connection: uvicorn's protocol with limits for slow clients, and the client's certificate.

The head of a request is limited in bytes and in time. Pauses of the client within a body, or while it should read an
answer, are limited, too. Pauses of the application itself are not counted.
"""

import asyncio
import hashlib
from collections import Counter
from typing import Any, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from semq.config.web import HttpSection
from semq.web.errors import BadRequest
from semq.web.transport.failures import problem
from semq.web.transport.response_headers import ALWAYS, UNSTORED

log = structlog.get_logger("semq.web")
HEAD_MAX = 64 << 10  # bytes
HEAD_TOO_LARGE = f"The head of a request has at most {HEAD_MAX} bytes."
CLOSE = (b"connection", b"close")
CERTIFICATE = "semq.certificate"  # in the extensions of the scope: SHA-256 of the client's certificate, hexadecimal


class Connection(HttpToolsProtocol):
    """A connection with limits."""

    def __init__(self, limits: HttpSection, peers: Counter[str], **arguments: Any) -> None:
        """``peers``: number of connections from each address; all connections share it."""
        super().__init__(**arguments)
        self._peers = peers
        self._peer = ""
        self._limits = limits
        self._in_head = True
        self._head_bytes = 0
        self._certificate = ""
        self._fault = ""  #: why the head of a request is refused
        self._head_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None
        self._active_at = 0.0  #: when the client last sent or read data, by the clock of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._peers[self._peer] += 1
        if self._peers[self._peer] > self._limits.max_connections_per_address:
            log.warning("too_many_connections", peer=self._peer, at_most=self._limits.max_connections_per_address)
            cast(asyncio.Transport, transport).abort()
            return
        self._await_head()
        ssl_object = transport.get_extra_info("ssl_object")
        der = ssl_object.getpeercert(binary_form=True) if ssl_object is not None else None
        if der:
            self._certificate = hashlib.sha256(der).hexdigest()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._pause_timer):
            if timer is not None:
                timer.cancel()
        self._peers[self._peer] -= 1
        if not self._peers[self._peer]:
            del self._peers[self._peer]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._active_at = self.loop.time()
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX:
                self.send_400_response(HEAD_TOO_LARGE)
        self._expect_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._await_head()
        if self._certificate:
            self.scope["extensions"] = {CERTIFICATE: {"sha256": self._certificate}}

    def on_headers_complete(self) -> None:
        try:
            self._check_head()
        except BadRequest as error:
            self._fault = error.text
            raise  # the parser stops, and ``send_400_response`` answers
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()
        if self._pause_timer is None:
            self._pause_timer = self.loop.call_later(self._limits.body_s, self._check_pause)

    def _check_head(self) -> None:
        """Refuse a large head that arrived in one piece, or a head that a proxy may read differently."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_MAX:
            raise BadRequest(HEAD_TOO_LARGE)
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):  # RFC 9112, section 3.2
            raise BadRequest("A request must have exactly one header Host.")

    def on_message_complete(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be read with a problem document, and disconnect. Also called by uvicorn."""
        answer = problem(BadRequest(self._fault or msg))
        lines = (b"%b: %b\r\n" % header for header in (*answer.raw_headers, *ALWAYS, UNSTORED, CLOSE))
        self.transport.write(b"".join((b"HTTP/1.1 400 Bad Request\r\n", *lines, b"\r\n", bytes(answer.body))))
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._active_at = self.loop.time()
        if self._pause_timer is None:
            self._pause_timer = self.loop.call_later(self._limits.body_s, self._check_pause)

    def resume_writing(self) -> None:
        self._active_at = self.loop.time()
        super().resume_writing()

    def _expect_head(self) -> None:
        """Limit the wait for the next head, if the client has sent bytes between two requests.

        Any byte stops uvicorn's own timer for idle connections.
        """
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        is_idle = cycle is not None and cycle.response_complete and not cycle.more_body
        if is_idle and self._head_timer is None and not self.transport.is_closing():
            self._await_head()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_s, self._disconnect)

    def _check_pause(self) -> None:
        """Disconnect an inactive client, unless it waits for the application to read."""
        self._pause_timer = None
        is_waiting = self.flow.write_paused or self.cycle.more_body
        if not is_waiting or self.transport.is_closing():
            return
        if self.flow.read_paused and not self.flow.write_paused:
            self._active_at = self.loop.time()
        remaining_s = self._active_at + self._limits.body_s - self.loop.time()
        if remaining_s <= 0:
            self._disconnect()
        else:
            self._pause_timer = self.loop.call_later(remaining_s, self._check_pause)

    def _disconnect(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.abort()
