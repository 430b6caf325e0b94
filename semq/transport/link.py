"""One AMQP connection over TCP: a socket, a state machine without IO (``semq.amqp``), and an owner that gets events.

Output is written once per turn of the loop.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from semq.amqp.events import ConnectionClosed, ConnectionEvent, ConnectionFailed
from semq.clock import Clock
from semq.transport.peer import PeerInfo, peer_of
from semq.transport.turn import READ_SIZE, Turn

WRITE_HIGH = 512 * 1024  # with more bytes of waiting output, the link is not writable
WRITE_LOW = 128 * 1024  # with fewer bytes, it is writable again
LINGER_S = 1.0  # time for a peer to close its side after our last output
RECORD = 16 * 1024  # bytes of one TLS record (RFC 8446, section 5.1)
EVENTS_PER_READ = 256  # after a read with more events, the next reads are smaller
READ_SIZE_MIN = 1024  # bytes
UNREAD_MAX = 4 * 1024 * 1024  # with more bytes of waiting output, nothing is read from the peer


class AmqpMachine(Protocol):
    """The state machine of a link: a ``ServerConnection`` or ``ClientConnection``."""

    @property
    def next_deadline(self) -> float | None: ...

    @property
    def output_size(self) -> int: ...

    @property
    def is_negotiated(self) -> bool: ...

    def start(self, now: float) -> None: ...

    def receive(self, data: bytes, now: float) -> list[ConnectionEvent]: ...

    def receive_eof(self, now: float) -> list[ConnectionEvent]: ...

    def tick(self, now: float) -> list[ConnectionEvent]: ...

    def take_output(self) -> Sequence[bytes | memoryview]: ...


class LinkOwner(Protocol):
    """The receiver of a link's events."""

    def link_made(self, link: "SocketLink") -> None:
        """Note that the socket is connected."""

    def process(self, events: list[ConnectionEvent]) -> None:
        """Process all events of one read, or of one deadline."""

    def writable(self, is_writable: bool) -> None:
        """Note whether output may be added; False while the peer reads too slowly."""

    def flushed(self) -> None:
        """Note that the pending output has been passed to the socket."""

    def link_lost(self, error: Exception | None) -> None:
        """Note that the socket is closed; this is the last call. ``error``: None unless the socket failed."""


class SocketLink(asyncio.BufferedProtocol):
    """A socket with a state machine. ``pause_s``: seconds before the answer to a failed negotiation (AMQP, 4.10.2)."""

    def __init__(self, machine: AmqpMachine, owner: LinkOwner, clock: Clock, turn: Turn, pause_s: float = 0.0) -> None:
        self.machine = machine
        self.peer = PeerInfo("", 0)
        self.is_writable = True
        self.is_lost = False
        self._owner = owner
        self._clock = clock
        self._turn = turn
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._pause_timer: asyncio.TimerHandle | None = None  # set during ``pause_s``
        self._linger_timer: asyncio.TimerHandle | None = None
        self._ending_event: ConnectionEvent | None = None
        self._is_ending = False  # no more events are passed to the owner
        self._is_parting = False  # the peer has sent close, and will close the socket
        self._is_reported = False  # the owner knows that the link is lost
        self._has_resumed = False  # reading has been resumed since the last ``_catch_up``
        self._is_marked = False
        self._read_pauses: set[str] = set()
        self._read_size = READ_SIZE

    # From asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self.peer = peer_of(transport)
        self._owner.link_made(self)
        self.machine.start(self._clock.monotonic())
        self.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._turn.read_buffer[: self._read_size]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_parting:
            self.machine.receive(bytes(self._turn.read_buffer[:nbytes]), self._clock.monotonic())
            self._write()
        elif not self._is_ending:
            data = bytes(self._turn.read_buffer[:nbytes])
            if nbytes == self._read_size:
                self._let_others_read()
            events = self.machine.receive(data, self._clock.monotonic())
            self._adjust_read_size(nbytes, len(events))
            self._pass_on(events)
            if self._timer is None:
                self._arm()

    def eof_received(self) -> bool:
        if not self._is_ending:
            self._pass_on(self.machine.receive_eof(self._clock.monotonic()))
        # True keeps our side open for the delayed output; TLS has no half-open connections.
        return self._pause_timer is not None and self.peer.tls is None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_reported:
            return
        self.is_lost = self._is_ending = self._is_reported = True
        self.is_writable = False
        for timer in (self._timer, self._pause_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._owner.link_lost(exc)

    def pause_writing(self) -> None:
        self.is_writable = False
        self._owner.writable(False)

    def resume_writing(self) -> None:
        self.is_writable = True
        self.resume_reading("unread")
        self._owner.writable(True)

    # Interface of the owner.

    @property
    def unsent(self) -> int:
        """The number of bytes of output that the machine and the socket's buffer hold."""
        return self.machine.output_size + (0 if self.is_lost else self._transport.get_write_buffer_size())

    def request_write(self) -> None:
        """Request a write at the end of this turn."""
        if not self._is_marked:
            self._is_marked = True
            self._turn.mark(self)

    def pause_reading(self, reason: str) -> None:
        """Stop reading until every reason is removed."""
        if not self._read_pauses and not self.is_lost:
            self._transport.pause_reading()
        self._read_pauses.add(reason)

    def resume_reading(self, reason: str) -> None:
        """Remove one reason; read again if none is left."""
        if reason in self._read_pauses:
            self._read_pauses.discard(reason)
            if not self._read_pauses and self._is_usable:
                self._transport.resume_reading()
                self._has_resumed = True
                self.request_write()

    def resume_for_close(self) -> None:
        """Read again on a closing connection, for the answer of the peer."""
        for reason in self._read_pauses - {_NEGOTIATION_FAILED}:
            self.resume_reading(reason)

    def flush(self) -> None:
        """Process deadlines that have passed, write the output, and set the timer for the next deadline."""
        self._is_marked = False
        if self.is_lost:
            return
        is_timed = self._is_timed and not (self._read_pauses or self._has_resumed)
        if not (is_timed or self._is_ending):
            self._catch_up()
        if self._pause_timer is None:
            self._write()
        if not is_timed:
            self._arm()

    def hold_back(self) -> None:
        """Neither write nor read for ``pause_s``, because a negotiation has failed."""
        if self._pause_s and self._pause_timer is None:
            self._pause_timer = self._loop.call_later(self._pause_s, self._release)
            self.pause_reading(_NEGOTIATION_FAILED)

    def abort(self) -> None:
        """Close the socket at once, without sending the waiting output; the owner gets ``link_lost``."""
        self.is_lost = self._is_ending = True
        if self._transport is not None:
            self._transport.abort()
            # If ``create_connection`` is cancelled after ``connection_made``, uvloop (0.23.0) closes the transport
            # without ``connection_lost``. Its ``is_closing`` remains False, and writing raises RuntimeError.
            self._loop.call_soon(self.connection_lost, None)

    # Inside.

    @property
    def _is_usable(self) -> bool:
        return not (self.is_lost or self._transport.is_closing())

    def _pass_on(self, events: list[ConnectionEvent]) -> None:
        if events:
            self._owner.process(events)
            for event in events:
                if type(event) in _ENDINGS:
                    self._end(event)
        if self.machine.output_size:
            self.request_write()

    def _adjust_read_size(self, size: int, events: int) -> None:
        if events > EVENTS_PER_READ:
            self._read_size = max(READ_SIZE_MIN, size * EVENTS_PER_READ // events)
        elif events < EVENTS_PER_READ // 2:
            self._read_size = READ_SIZE

    def _let_others_read(self) -> None:
        """Pause reading for a turn: the event loop may read up to 32 times before it serves other sockets."""
        if not self._read_pauses:
            self._transport.pause_reading()
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        if not self._read_pauses and self._is_usable:
            self._transport.resume_reading()

    def _write(self) -> None:
        pieces = self.machine.take_output()
        if pieces and self._is_usable:
            self._transport.writelines(pieces if self.peer.tls is None else list(join_small(pieces)))
            if not self.is_writable and self._transport.get_write_buffer_size() > UNREAD_MAX:
                self.pause_reading("unread")
            self._owner.flushed()

    def _end(self, event: ConnectionEvent) -> None:
        self._ending_event = event
        if getattr(event, "pause", False):
            self.hold_back()
        if self._pause_timer is None:
            self._conclude()

    def _release(self) -> None:
        self._pause_timer = None
        self.resume_reading(_NEGOTIATION_FAILED)
        self._conclude()
        self._arm()

    def _conclude(self) -> None:
        self._write()
        if isinstance(self._ending_event, ConnectionClosed):
            self._is_ending = True
            self._is_parting = self._ending_event.by_peer
            self._close_socket()

    def _close_socket(self) -> None:
        """Close the socket; without TLS after LINGER_S, because a close with unread input discards our last output."""
        if self._is_usable and self._transport.can_write_eof():
            if not self._is_parting:
                self._transport.write_eof()
            self.resume_for_close()
            self._linger_timer = self._loop.call_later(LINGER_S, self._transport.close)
        else:
            self._transport.close()
        self._arm_abort()

    def _arm_abort(self) -> None:
        """Abort after ten seconds: a peer that does not read must not keep the socket open."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_lost:
            self._timer = self._loop.call_later(10.0, self.abort)

    def _catch_up(self) -> None:
        now = self._clock.monotonic()
        deadline = self.machine.next_deadline
        if (self._read_pauses and deadline is not None and deadline <= now) or self._has_resumed:
            # While reading is paused, the peer must not count as silent.
            self._has_resumed = False
            self._pass_on(self.machine.receive(b"", now))
            deadline = self.machine.next_deadline
        if deadline is not None and deadline <= now:
            self._pass_on(self.machine.tick(now))

    @property
    def _is_timed(self) -> bool:
        """Whether the timer runs before the next deadline, and then sets the next timer, or there is no deadline."""
        deadline = self.machine.next_deadline
        return deadline is None or (self._timer is not None and self._timer_at <= deadline)

    def _arm(self) -> None:
        if self._is_ending or self._is_timed:
            return
        deadline = self.machine.next_deadline
        assert deadline is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - self._clock.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.flush()


def join_small(pieces: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Join small pieces, because over TLS each piece is sent as a record of its own."""
    small: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        small.append(piece)
        size += len(piece)
        if size >= RECORD:
            yield small[0] if len(small) == 1 else b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)


_NEGOTIATION_FAILED = "negotiation failed"
_ENDINGS = frozenset({ConnectionClosed, ConnectionFailed})
