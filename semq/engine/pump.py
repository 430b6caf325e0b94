"""Rows in SS_INIT on their way out: one lane per destination, so that a dead partner blocks nobody (row B8).

A lane knows, from memory alone, whether the store may hold unsent rows for its destination and what is under way. As
long as it does, new rows are stored behind them; once it does not, a new row may be sent in the commit that accepts it.
Used by the sender for its own rows and by the hub for what it holds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from semq.engine.bodies import decode_envelope
from semq.engine.core import Core, Step
from semq.engine.errors import BodyUnreadable
from semq.store.rows import Event, Outbound, Side, Stored
from semq.store.unit import Unit, Unsent
from semq.umx_t.envelope import Data
from semq.umx_t.status import Direction

NEVER = 1 << 63


@dataclass(slots=True)
class Lane:
    """One destination: volatile, rebuilt when the process starts."""

    dest: str
    cursor: int = 0  #: rows up to here have been looked at
    behind: bool = False  #: the store may hold rows in SS_INIT
    stored: int = 0  #: how many commits have left rows in SS_INIT
    low: int = NEVER  #: lowest row that went back to SS_INIT since the last claim was posted, less one
    claiming: bool = False
    blocked: bool = False  #: the next row lies beyond the window of its stream; freed when the floor moves
    flight: set[int] = field(default_factory=set)  #: rows sent and not answered


class Pump:
    """The lanes of one node, and the work that claims rows and sends them."""

    def __init__(
        self,
        core: Core,
        room: Callable[[Lane], int],
        may_claim: Callable[[Outbound], bool],
        claim: Callable[[Unit, Outbound, Stored, list[Any]], Data | None],
        send: Callable[[str, list[Data]], None],
        sent: Callable[[int], None],
        gone: Callable[[Outbound], None] = lambda row: None,
    ) -> None:
        self._core = core
        self._room = room
        self._may_claim = may_claim
        self._claim = claim
        self._send = send
        self._sent = sent
        self._gone = gone  #: told of rows that ended with their sending (class 2 without a receipt)
        self.lanes: dict[str, Lane] = {}

    def lane(self, dest: str) -> Lane:
        """The lane of a destination, made when first asked for."""
        lane = self.lanes.get(dest)
        if lane is None:
            lane = self.lanes[dest] = Lane(dest)
        return lane

    def room(self, lane: Lane) -> int:
        """How many messages may be sent on the lane now."""
        return self._room(lane)

    def send(self, dest: str, frames: list[Data]) -> None:
        """Send messages whose rows are committed as SS_SENT (or that leave no row)."""
        if frames:
            self._send(dest, frames)

    def wake(self, dest: str, object_id: int | None = None) -> None:
        """The store holds unsent rows for ``dest`` (from ``object_id`` on, or from where the lane has come to)."""
        lane = self.lane(dest)
        lane.behind = True
        lane.stored += 1
        if object_id is not None:
            lane.cursor = min(lane.cursor, object_id - 1)
            lane.low = min(lane.low, object_id - 1)
            lane.blocked = False  # it went before the row that lies beyond the window
        self.run(lane)

    def run(self, lane: Lane) -> None:
        """Claim the next rows of a lane if it has any and there is room."""
        if not lane.behind or lane.claiming or lane.blocked:
            return
        limit = min(self._room(lane), self._core.settings.claim_rows)
        if limit > 0:
            lane.claiming = True
            lane.low = NEVER
            self._core.post(_Claim(self, lane, limit))

    def run_all(self) -> None:
        """There may be room again, everywhere."""
        for lane in list(self.lanes.values()):
            self.run(lane)

    def took_off(self, lane: Lane, object_id: int) -> None:
        """A message was sent: it is under way until something is heard of it."""
        lane.flight.add(object_id)
        self._sent(object_id)

    def watch(self, object_id: int) -> None:
        """A platform store holds a copy of a row that waited to be sent (again): ask about it, too."""
        self._sent(object_id)


class _Claim(Step):
    """S2 and H5: rows from SS_INIT to SS_SENT, committed before they are sent (rule R8)."""

    def __init__(self, pump: Pump, lane: Lane, limit: int) -> None:
        super().__init__()
        self._pump = pump
        self._lane = lane
        self._stored = lane.stored
        self._query = Unsent(lane.dest, lane.cursor, limit, pump._core.settings.claim_bytes)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._frames: list[Data] = []
        self._claimed: list[int] = []
        self._left: list[Outbound] = []
        self._events: list[Any] = []
        self._cursor = self._query.after
        self._blocking: Outbound | None = None
        self._found = bool(unit.found.get(self._query))
        for row in unit.outbound_found(self._query):
            if not self._pump._may_claim(row):
                self._blocking = row
                break
            self._cursor = row.object_id
            if row.held:
                continue  # a person has held or refused it in this very commit, after it was found
            stored = unit.bodies.get(row.object_id)
            try:
                decode_envelope(stored)
            except BodyUnreadable as error:
                self._hold(unit, row, error)
                continue
            assert stored is not None
            frame = self._pump._claim(unit, row, stored, self._events)
            if frame is not None:
                self._frames.append(frame)
                # A row that is deleted with its sending never lands: it must not take a place in the flight.
                if row.object_id in unit.deleted_outbound:
                    self._left.append(replace(row))  # as it left: the object belongs to this unit
                else:
                    self._claimed.append(row.object_id)

    def _hold(self, unit: Unit, row: Outbound, error: BodyUnreadable) -> None:
        """What cannot be read cannot be sent: it waits for a person, and those behind it go on."""
        row.held, row.reason = True, (error.code, error.text)
        unit.change_outbound(row, row.ss_status)
        side = Side.HUB if row.direction is Direction.RELAYED else Side.SENDER
        unit.ledger.append(self._pump._core.line(side, Event.PARKED, row, str(error)[:500]))
        self._pump._core.count("unreadable")

    def committed(self) -> None:
        lane = self._lane
        lane.claiming = False
        # Asked again: the floor may have moved while the transaction was open.
        beyond = self._blocking is not None and not self._pump._may_claim(self._blocking)
        lane.blocked = beyond and lane.low == NEVER
        # Rows that went back to SS_INIT since the query was written must not be jumped over.
        lane.cursor = min(self._cursor, lane.low)
        if not self._found and lane.stored == self._stored:
            lane.behind = False
        for object_id in self._claimed:
            self._pump.took_off(lane, object_id)
        for row in self._left:
            self._pump._gone(row)
        self._pump.send(lane.dest, self._frames)
        if self._events:
            self._pump._core.events.publish(self._events)
        self._pump.run(lane)

    def failed(self, error: Exception) -> None:
        self._lane.claiming = False
