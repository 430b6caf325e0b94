"""One HTTP connection: uvicorn's protocol with limits for slow clients, and the client's certificate.

The head of a request is limited in bytes and in time. Within a body, pauses of the client are limited, and its rate has
a lower limit; while it should read an answer, pauses are limited. Times in which the application itself does not read
are not counted.
"""

import asyncio
import hashlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from semq.config.web import HttpSection
from semq.errors import SemqError
from semq.transport.places import Places
from semq.web.errors import BadRequest, BodyTooSlow
from semq.web.transport.failures import problem
from semq.web.transport.response_headers import ALWAYS, UNSTORED

HEAD_MAX = 64 << 10  # bytes
HEAD_TOO_LARGE = f"The head of a request has at most {HEAD_MAX} bytes."
CLOSE = (b"connection", b"close")
CERTIFICATE = "semq.certificate"  # in the extensions of the scope: SHA-256 of the client's certificate, hexadecimal


class _Flow(FlowControl):
    """uvicorn's flow control, which tells when the application reads again."""

    def __init__(self, transport: asyncio.Transport, on_resume: Callable[[], None]) -> None:
        super().__init__(transport)
        self._on_resume = on_resume

    def resume_reading(self) -> None:
        if self.read_paused:
            self._on_resume()
        super().resume_reading()


class Connection(HttpToolsProtocol):
    """A connection with limits."""

    def __init__(self, limits: HttpSection, places: Places, **arguments: Any) -> None:
        """``places``: of the port; all connections share them."""
        super().__init__(**arguments)
        self._places = places
        self._limits = limits
        self._in_head = True
        self._head_bytes = 0
        self._certificate = ""
        self._fault = ""  #: why the head of a request is refused
        self._head_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None
        self._active_at = 0.0  #: when the client last sent or read data, by the clock of the event loop
        self._window_at = 0.0  #: since when the bytes of a body are counted
        self._window_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.flow = _Flow(cast(asyncio.Transport, transport), self._begin_window)
        self._active_at = self.loop.time()
        if not self._has_place(transport):
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
        self._places.leave(self)
        super().connection_lost(exc)

    def _has_place(self, transport: asyncio.BaseTransport) -> bool:
        address = str((transport.get_extra_info("peername") or ("",))[0])
        is_tls = transport.get_extra_info("ssl_object") is not None
        if not is_tls and not self._places.have_room(address):
            return False  # with TLS, the handshake had a place
        self._places.take(self, address)
        return True

    @property
    def waits_since(self) -> float | None:
        """Since when the client has sent nothing of a head or body for which the server waits."""
        cycle: RequestResponseCycle | None = self.cycle
        is_idle = self._in_head or cycle is None or cycle.response_complete
        return self._active_at if is_idle or self._is_body_awaited() else None

    def displace(self) -> None:
        self.connections.discard(self)
        self._disconnect()

    def _is_body_awaited(self) -> bool:
        """Whether the client should send more of a body, and the application would read it."""
        return self.cycle.more_body and not self.flow.read_paused and not self.cycle.waiting_for_100_continue

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
        self._begin_window()
        if self._pause_timer is None:
            self._pause_timer = self.loop.call_later(self._limits.body_s, self._check_pause)

    def _check_head(self) -> None:
        """Refuse a large head that arrived in one piece, or a head that a proxy may read differently (RFC 9112)."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_MAX:
            raise BadRequest(HEAD_TOO_LARGE)
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and version == "1.1"):  # section 3.2
            raise BadRequest("A request must have exactly one header Host.")
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version != "1.1"):  # sections 6.1 and 7
            raise BadRequest("The only Transfer-Encoding of a request is chunked, once, in HTTP/1.1.")

    def on_body(self, body: bytes) -> None:
        self._window_bytes += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        is_unread = self.cycle.response_complete and self.cycle.more_body
        if is_unread and self._head_timer is None and not self.transport.is_closing():
            self._await_head()  # the rest of a body that nobody reads must come soon

    def on_message_complete(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        if self._head_timer is not None:  # set by ``on_response_complete``
            self._head_timer.cancel()
            self._head_timer = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be read with a problem document, and disconnect. Also called by uvicorn."""
        self._refuse(BadRequest(self._fault or msg))

    def _refuse(self, error: SemqError) -> None:
        """Answer with a problem document without the application, and disconnect."""
        answer = problem(error)
        status = HTTPStatus(answer.status_code)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
        lines = (b"%b: %b\r\n" % header for header in (*answer.raw_headers, *ALWAYS, UNSTORED, CLOSE))
        self.transport.write(b"".join((head, *lines, b"\r\n", bytes(answer.body))))
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

        Each byte stops uvicorn's own timer for idle connections.
        """
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        is_idle = cycle is not None and cycle.response_complete and not cycle.more_body
        if is_idle and self._head_timer is None and not self.transport.is_closing():
            self._await_head()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_s, self._disconnect)

    def _begin_window(self) -> None:
        """Count the bytes of the body, and the pause of the client, from now on."""
        self._active_at = self._window_at = self.loop.time()
        self._window_bytes = 0

    def _check_pause(self) -> None:
        """Disconnect an inactive or slow client, unless it waits for the application to read."""
        self._pause_timer = None
        if not (self.flow.write_paused or self.cycle.more_body) or self.transport.is_closing():
            return
        if not self.flow.write_paused and not self._is_body_awaited():
            self._begin_window()
        now, body_s = self.loop.time(), self._limits.body_s
        ends_at = self._active_at + body_s
        if self._is_body_awaited():
            window_ends_at = self._window_at + body_s
            if window_ends_at <= now and self._window_bytes >= self._limits.body_bytes_per_s * body_s:
                self._window_at, self._window_bytes, window_ends_at = now, 0, now + body_s
            ends_at = min(ends_at, window_ends_at)
        if ends_at > now:
            self._pause_timer = self.loop.call_later(ends_at - now, self._check_pause)
        elif self._is_body_awaited() and not self.cycle.response_started:
            self._refuse(BodyTooSlow(bytes_per_s_min=self._limits.body_bytes_per_s, over_s=body_s))
        else:
            self._disconnect()

    def _disconnect(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.abort()
