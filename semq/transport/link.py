"""One TCP connection that speaks AMQP: the socket on one side, a connection state machine on the other.

``Link`` is an asyncio protocol. It feeds what it reads to a sans-IO connection (``semq.amqp``), gives the events of
one read to its owner in one list, writes the output once per turn of the loop, keeps the deadlines (heartbeats,
handshake, close), and bounds what waits to be written: while the peer does not read, the owner is told that the link
is not writable. Made by ``listener`` and ``dialer``; what the events mean is the owner's business.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from semq.amqp.events import ConnectionClosed, ConnectionFailed, Event
from semq.clock import Clock
from semq.transport.peer import PeerInfo, peer_of
from semq.transport.turn import READ_SIZE, Turn

WRITE_HIGH = 512 * 1024  # octets that wait in the socket buffer before the link counts as not writable
WRITE_LOW = 128 * 1024
LINGER_S = 1.0  # how long a peer that has our last words may take to close its side
RECORD = 16 * 1024  # octets of one record of TLS (RFC 8446, section 5.1)
EVENTS_PER_READ = 256
READ_SIZE_MIN = 1024
UNREAD_MAX = 4 * 1024 * 1024  # octets that a peer may leave unread before nothing more is read from it


class AmqpMachine(Protocol):
    """What a link needs of a ``ServerConnection`` or ``ClientConnection``."""

    @property
    def next_deadline(self) -> float | None: ...

    @property
    def output_size(self) -> int: ...

    def start(self, now: float) -> None: ...

    def receive(self, data: bytes, now: float) -> list[Event]: ...

    def receive_eof(self, now: float) -> list[Event]: ...

    def tick(self, now: float) -> list[Event]: ...

    def take_output(self) -> Sequence[bytes | memoryview]: ...


class LinkOwner(Protocol):
    """Who hears what a link reads."""

    def link_made(self, link: "Link") -> None:
        """The socket is there; nothing has been read yet."""

    def heard(self, events: list[Event]) -> None:
        """Everything that one read, or one deadline, brought."""

    def writable(self, is_writable: bool) -> None:
        """The peer reads too slowly (False), or has caught up (True)."""

    def flushed(self) -> None:
        """What was produced has been given to the socket."""

    def link_lost(self, error: Exception | None) -> None:
        """The socket is gone; the last call. ``error`` is None if it was closed in order."""


class Link(asyncio.BufferedProtocol):
    """A socket with a state machine. ``pause_s``: how long the end of a failed negotiation is held back (4.10.2)."""

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
        self._held: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._ending_event: Event | None = None
        self._is_ending = False
        self._is_parting = False  # the peer has closed: it ends the socket, and may say close again before
        self._has_resumed = False
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
            self._measure(nbytes, len(events))
            self._pass_on(events)
            if self._timer is None:
                self._arm()

    def eof_received(self) -> bool:
        if not self._is_ending:
            self._pass_on(self.machine.receive_eof(self._clock.monotonic()))
        # True keeps our side open until the held output has gone; TLS has no half-open connections.
        return self._held is not None and self.peer.tls is None

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = self._is_ending = True
        self.is_writable = False
        for timer in (self._timer, self._held, self._lingering):
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

    # For the owner.

    def touch(self) -> None:
        """There is output: write it at the end of this turn."""
        if not self._is_marked:
            self._is_marked = True
            self._turn.mark(self)

    def pause_reading(self, reason: str) -> None:
        """Stop reading until every reason is lifted; the peer is held back by TCP."""
        if not self._read_pauses and not self.is_lost:
            self._transport.pause_reading()
        self._read_pauses.add(reason)

    def resume_reading(self, reason: str) -> None:
        """Lift one reason."""
        if reason in self._read_pauses:
            self._read_pauses.discard(reason)
            if not self._read_pauses and not self.is_lost and not self._transport.is_closing():
                self._transport.resume_reading()
                self._has_resumed = True
                self.touch()

    def read_on(self) -> None:
        """The connection is closing: read whatever still comes, to hear the answer of the peer."""
        for reason in self._read_pauses - {_NEGOTIATION_FAILED}:
            self.resume_reading(reason)

    @property
    def waiting_octets(self) -> int:
        """Octets that this side has produced and the network has not taken."""
        return self.machine.output_size + (0 if self.is_lost else self._transport.get_write_buffer_size())

    def flush(self) -> None:
        """Hear what the machine has to say by itself, write its output, and keep its next deadline."""
        self._is_marked = False
        if self.is_lost:
            return
        if not self._is_ending:
            self._catch_up()
        if self._held is None:
            self._write()
        self._arm()

    def hold_back(self) -> None:
        """Keep the output, and do not read, for the pause that the specification asks for after a failed
        negotiation."""
        if self._pause_s and self._held is None:
            self._held = self._loop.call_later(self._pause_s, self._release)
            self.pause_reading(_NEGOTIATION_FAILED)

    def abort(self) -> None:
        """Drop the socket without any word."""
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()

    # Inside.

    def _pass_on(self, events: list[Event]) -> None:
        if events:
            self._owner.heard(events)
            for event in events:
                if type(event) in _ENDINGS:
                    self._end(event)
        if self.machine.output_size:
            self.touch()

    def _measure(self, octets: int, events: int) -> None:
        """What one read may bring is bounded by its work too: small requests cost as much as large messages."""
        if events > EVENTS_PER_READ:
            self._read_size = max(READ_SIZE_MIN, octets * EVENTS_PER_READ // events)
        elif events < EVENTS_PER_READ // 2:
            self._read_size = READ_SIZE

    def _let_others_read(self) -> None:
        """There is more where that came from, and the loop would go on reading it, up to 32 times, before anybody else
        has a turn: whoever floods this side must not keep the others waiting."""
        if not self._read_pauses:
            self._transport.pause_reading()
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        if not self._read_pauses and not self.is_lost and not self._transport.is_closing():
            self._transport.resume_reading()

    def _write(self) -> None:
        pieces = self.machine.take_output()
        if pieces and not self._transport.is_closing():
            self._transport.writelines(pieces if self.peer.tls is None else list(joined(pieces)))
            if not self.is_writable and self._transport.get_write_buffer_size() > UNREAD_MAX:
                self.pause_reading("unread")
            self._owner.flushed()

    def _end(self, event: Event) -> None:
        self._ending_event = event
        if getattr(event, "pause", False):
            self.hold_back()
        if self._held is None:
            self._conclude()

    def _release(self) -> None:
        self._held = None
        self.resume_reading(_NEGOTIATION_FAILED)
        self._conclude()
        self._arm()

    def _conclude(self) -> None:
        self._write()
        if isinstance(self._ending_event, ConnectionClosed):
            self._is_ending = True
            self._is_parting = self._ending_event.by_peer
            self._hang_up()

    def _hang_up(self) -> None:
        """Close the socket, but hear the peer out for a moment: if something of it stood unread, its kernel would throw
        our last words away. A peer that has closed the connection is the one to end the socket."""
        if self._transport.can_write_eof() and not self._transport.is_closing():
            if not self._is_parting:
                self._transport.write_eof()
            self.read_on()
            self._lingering = self._loop.call_later(LINGER_S, self._transport.close)
        else:
            self._transport.close()
        self._arm_abort()

    def _arm_abort(self) -> None:
        """A peer that does not read must not keep a closed socket alive for ever."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_lost:
            self._timer = self._loop.call_later(10.0, self.abort)

    def _catch_up(self) -> None:
        """Whatever the machine does by itself: events that a command caused, heartbeats, patience that has ended."""
        now = self._clock.monotonic()
        deadline = self.machine.next_deadline
        if (self._read_pauses and deadline is not None and deadline <= now) or self._has_resumed:
            # While we do not read we cannot know that the peer is silent: it must not be taken for dead.
            self._has_resumed = False
            self._pass_on(self.machine.receive(b"", now))
            deadline = self.machine.next_deadline
        if deadline is not None and deadline <= now:
            self._pass_on(self.machine.tick(now))

    def _arm(self) -> None:
        if self._is_ending:
            return
        deadline = self.machine.next_deadline
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer_at <= deadline:
                return  # it rings earlier, and looks again then: cheaper than a new timer for every read
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.flush()


def joined(pieces: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same octets with small pieces put together: over TLS each piece would be a record of its own."""
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
