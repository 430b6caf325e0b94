"""Named steps, commits and sent frames, at which a node kills or suspends itself.

With CRASH_FAILPOINT=R1:after:3 in the environment, the process kills itself (SIGKILL) when it reaches step R1 for the
third time, in the phase ``after``; with R1:after:3:stop it suspends itself (SIGSTOP).

| phase  | of a commit                                                        | of a frame that is sent              |
|--------|--------------------------------------------------------------------|--------------------------------------|
| before | decided, nothing sent to Postgres                                  | nothing of it is in the socket       |
| amid   | COMMIT is in the socket, its answer is not read                    | not defined                          |
| after  | durable, not reported to any caller                                | all of it is in the socket           |

Step ``boot`` is the opening of the store. Step ``statement`` is an exchange with Postgres that is not the writer's;
exchanges are counted from the last opening. Both steps have the phases ``before`` and ``after`` only.

The other steps are events (section 5) and messages (section 4) of PROTOCOL.md. They are recognised by ledger lines,
deletions and frames, so the engine has no code for failpoints.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg
import structlog

from semq.store.rows import Event, Side
from semq.store.unit import Recovered, Unit
from semq.store.work import COMMITTED, Steps, Work, work
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, HubFlag

VARIABLE = "CRASH_FAILPOINT"
BEFORE, AMID, AFTER = "before", "amid", "after"
FLUSHED_TURNS = 4  # turns of the loop until a sent frame is in the socket: engine, channel, link, libuv

log = structlog.get_logger("semq.failpoints")

ENDS = (Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED)
# step | side | events: the transaction has a ledger line of one of them
COMMITS: dict[str, tuple[Side, tuple[Event, ...]]] = {
    "S1": (Side.SENDER, (Event.ACCEPTED,)),
    "S2": (Side.SENDER, (Event.SENT,)),
    "S3": (Side.SENDER, (Event.FORWARDED,)),
    "S4": (Side.SENDER, (Event.STORED,)),
    "S5": (Side.SENDER, ENDS),  # every end of a row: also S5c, refusals, and the ends of classes 1 and 2
    "S8": (Side.SENDER, (Event.AGAIN,)),  # also S3b, S9 and S15
    "H3-line": (Side.HUB, (Event.FORWARDED,)),  # the hub takes no custody
    "H4": (Side.HUB, (Event.STORED,)),
    "H5": (Side.HUB, (Event.SENT,)),
    "H6": (Side.HUB, (Event.RELEASED,)),  # also H11 and H17
    "H12": (Side.HUB, (Event.AGAIN,)),
    "H16": (Side.HUB, (Event.OPERATOR,)),  # also H18
    "R1": (Side.RECEIVER, (Event.RECEIVED,)),
    "R1-again": (Side.RECEIVER, (Event.DUPLICATE,)),
    "R3": (Side.RECEIVER, (Event.PLATFORM_ACKED,)),
    "R4": (Side.RECEIVER, (Event.SENDER_ACKED,)),
    "R6-give": (Side.RECEIVER, (Event.GIVEN,)),
    "R6-done": (Side.RECEIVER, (Event.DONE,)),
}
# step | rows that the transaction deletes
DELETES: dict[str, Callable[[Unit], int]] = {
    "S13": lambda unit: len(unit.deleted_outbound),
    "R9": lambda unit: len(unit.deleted_pending),
}
BOOT = "boot"  # the transaction that opens the store
STATEMENT = "statement"


def _has_receipt(frame: Frame, primitive: Primitive, matches: Callable[[Any], bool]) -> bool:
    return (
        _is_packet(frame, Function.RECEIPTS, primitive)
        and isinstance(frame, Packet)
        and any(map(matches, frame.records))
    )


def _is_packet(frame: Frame, function: Function, primitive: Primitive) -> bool:
    return isinstance(frame, Packet) and frame.function is function and frame.primitive is primitive


# step | whether a frame belongs to it, also when a hub passes it on
SENDS: dict[str, Callable[[Frame], bool]] = {
    "MSG": lambda f: isinstance(f, Data) and f.envelope.lk1 is None,  # S2, and H3 at the hub
    "MSG-stored": lambda f: isinstance(f, Data) and f.envelope.lk1 is not None,  # H5
    "Ack-Fwd": lambda f: _has_receipt(
        f, Primitive.INDICATION, lambda r: r.flag in (HubFlag.FORWARDED, HubFlag.FORWARD_FAILED)
    ),
    "Ack-Save": lambda f: _has_receipt(f, Primitive.INDICATION, lambda r: r.flag is HubFlag.STORED),
    "Refusal": lambda f: _has_receipt(f, Primitive.INDICATION, lambda r: r.flag is HubFlag.REFUSED),
    "Ack": lambda f: _has_receipt(f, Primitive.INDICATION, lambda r: r.ack_flag is AckFlag.TRANSPORT),
    "Ack2": lambda f: _has_receipt(f, Primitive.INDICATION, lambda r: r.ack_flag is AckFlag.END_TO_END),
    "ReAck": lambda f: _has_receipt(f, Primitive.RESPONSE, lambda r: r.ack_flag is AckFlag.TRANSPORT),
    "ReAck2": lambda f: _has_receipt(f, Primitive.RESPONSE, lambda r: r.ack_flag is AckFlag.END_TO_END),
    "Inquiry": lambda f: _is_packet(f, Function.INQUIRIES, Primitive.REQUEST),
    "Answer": lambda f: _is_packet(f, Function.INQUIRIES, Primitive.CONFIRMATION),
}


class NoSuchFailpoint(ValueError):
    """CRASH_FAILPOINT is not STEP:PHASE:COUNT or STEP:PHASE:COUNT:stop with a known step and phase."""


class FailpointStore(Protocol):
    """The part of a store that a failpoint watches."""

    def post(self, work: Work, *, later: bool = False) -> None:
        """Post work."""

    async def start(self) -> Recovered:
        """Open the store."""


def all_failpoints() -> list[tuple[str, str]]:
    commits = [(step, phase) for step in (*COMMITS, *DELETES) for phase in (BEFORE, AMID, AFTER)]
    others = [(step, phase) for step in (BOOT, STATEMENT, *SENDS) for phase in (BEFORE, AFTER)]
    return commits + others


def armed(environment: Mapping[str, str]) -> "Failpoint | None":
    """Return the failpoint in the environment, or None. Raises NoSuchFailpoint."""
    text = environment.get(VARIABLE)
    if not text:
        return None
    step, _, rest = text.partition(":")
    phase, _, rest = rest.partition(":")
    count, _, deed = rest.partition(":")
    if (step, phase) not in all_failpoints() or not count.isdecimal() or int(count) < 1 or deed not in DEEDS:
        raise NoSuchFailpoint(text[:80])
    return Failpoint(step, phase, int(count), DEEDS[deed])


def end_now() -> None:
    """End the process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def suspend_now() -> None:
    """Suspend all threads of the process until SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)


DEEDS = {"": end_now, "stop": suspend_now}


@dataclass
class Failpoint:
    """A step and phase; ``strike`` is called once, when the process reaches them for the ``count``-th time."""

    step: str
    phase: str
    count: int
    strike: Callable[[], None] = end_now
    _reaches: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def watch_statements(self) -> None:
        """Watch the connections of this process, also those of threads."""
        if self.step != STATEMENT:
            return
        wait, wait_in_thread = psycopg.AsyncConnection.wait, psycopg.Connection.wait

        async def watched(connection: psycopg.AsyncConnection[Any], *args: Any, **named: Any) -> Any:
            self._reached_if(BEFORE)
            answer = await wait(connection, *args, **named)
            self._reached_if(AFTER)
            return answer

        def watched_in_thread(connection: psycopg.Connection[Any], *args: Any, **named: Any) -> Any:
            self._reached_if(BEFORE)
            answer = wait_in_thread(connection, *args, **named)
            self._reached_if(AFTER)
            return answer

        psycopg.AsyncConnection.wait = watched  # type: ignore[assignment,method-assign]
        psycopg.Connection.wait = watched_in_thread  # type: ignore[assignment,method-assign]

    def watch_store(self, store: FailpointStore) -> None:
        """Watch the openings of the store, and the work posted from now on."""
        log.warning("failpoint_armed", step=self.step, phase=self.phase, count=self.count)
        post, start = store.post, store.start

        async def watched_start() -> Recovered:
            self.begin_opening()
            if self._is(BOOT, BEFORE):
                self._reached()
            recovered = await start()
            if self._is(BOOT, AFTER):
                self._reached()
            return recovered

        def watched_post(work: Work, *, later: bool = False) -> None:
            watched = _watched(self, work)
            watched.on_failure = work.abandon
            post(watched, later=later)

        store.post = watched_post  # type: ignore[method-assign]
        store.start = watched_start  # type: ignore[method-assign]

    def begin_opening(self) -> None:
        """Count statements from here. A failpoint that has struck does not strike again."""
        if self.step == STATEMENT and self._reaches < self.count:
            self._reaches = 0

    def watch_link(self, link: Any) -> None:
        send = link.send

        def watched(frame: Frame) -> None:
            is_step = self.step in SENDS and SENDS[self.step](frame)
            if is_step and self.phase == BEFORE:
                self._reached()
            send(frame)
            if is_step and self.phase == AFTER:
                _later(self._reached, FLUSHED_TURNS)

        link.send = watched

    def watch_engine(self, engine: Any) -> None:
        """Watch the sessions that begin from now on."""
        link_up = engine.link_up

        def watched(link: Any) -> None:
            self.watch_link(link)
            link_up(link)

        engine.link_up = watched

    def touches(self, unit: Unit, lines: int, deleted: int) -> bool:
        """Return whether the unit has the step beyond its first ``lines`` ledger lines and ``deleted`` deletions."""
        if self.step in DELETES:
            return DELETES[self.step](unit) > deleted
        if self.step not in COMMITS:
            return False
        side, events = COMMITS[self.step]
        return any(line.side is side and line.event in events for line in unit.ledger[lines:])

    def deleted(self, unit: Unit) -> int:
        """Return the number of rows that the unit deletes for the step."""
        return DELETES[self.step](unit) if self.step in DELETES else 0

    def decided(self) -> None:
        """Called when an open unit contains the step. The commit is sent later in this turn of the loop."""
        if self.phase == BEFORE:
            self._reached()
        elif self.phase == AMID:
            _later(self._reached, 1)

    def committed(self) -> None:
        """Called when the step is durable and not yet reported."""
        self._reached_if(AFTER)

    def _is(self, step: str, phase: str) -> bool:
        return self.step == step and self.phase == phase

    def _reached_if(self, phase: str) -> None:
        if self.phase == phase:
            self._reached()

    def _reached(self) -> None:
        with self._lock:
            self._reaches += 1
            is_now = self._reaches == self.count
        if is_now:
            self.strike()


@work
def _watched(failpoint: Failpoint, piece: Work) -> Steps:
    piece.renew()
    unit = yield piece.needs
    lines, deleted = len(unit.ledger), failpoint.deleted(unit)
    piece.decide(unit)
    is_step = failpoint.touches(unit, lines, deleted)
    if is_step:
        failpoint.decided()
    yield COMMITTED
    if is_step:
        failpoint.committed()
    piece.finish()


def _later(step: Callable[[], None], turns: int) -> None:
    loop = asyncio.get_running_loop()
    if turns:
        loop.call_soon(_later, step, turns - 1)
    else:
        step()
