"""Lanes: the rows in SS_INIT, a lane for each destination, so that an unreachable partner does not delay others.

While the store may hold unsent rows for a destination, new rows wait there, too, and are sent by source and priority
(``tracks``). The sender uses lanes for its own rows, the hub for stored copies.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from semq.engine.core import Core
from semq.engine.errors import BodyUnreadable
from semq.engine.ports import PreparedEvent
from semq.engine.stored_envelopes import decode_envelope
from semq.engine.tracks import Pick, Tracks, interleaved
from semq.foreign_text import shortened
from semq.store.postgres.errors import RowRefused
from semq.store.rows import Event, Outbound, Side, Stored
from semq.store.unit import Needs, Unit, Unsent
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.envelope import Data
from semq.umx_t.status import Direction


class Lane(Struct):
    """The state of one destination."""

    dest: str
    tracks: Tracks = field(default_factory=Tracks)  #: rows in SS_INIT
    claiming: bool = False
    flight: set[int] = field(default_factory=set)  #: rows sent and not answered

    @property
    def has_waiting(self) -> bool:
        """Whether the store may hold rows in SS_INIT."""
        return self.tracks.has_waiting

    def end_claim(self) -> None:
        """Allow another claim, after an abandoned one."""
        self.claiming = False


class LaneOwner(Protocol):
    """The owner of the rows that the lanes send: the sender, or the hub's custody."""

    def capacity(self, lane: Lane) -> int:
        """Return how many messages may be sent on the lane now."""

    def may_claim(self, row: Outbound) -> bool:
        """Whether the window of the stream allows a row to be sent."""

    def claim(self, unit: Unit, row: Outbound, stored: Stored, events: list[PreparedEvent]) -> Data | None:
        """Mark a row as sent in the open transaction; add events for the application to ``events``.

        Return the message; None if it is not sent now.
        """

    def remark(self, dest: str) -> str:
        """Return the ledger's remark about the present link to a destination; it may be empty."""

    def send(self, dest: str, frames: list[Data]) -> None:
        """Send messages after the commit."""

    def plan_inquiry(self, object_id: int, sends: int = 1) -> None:
        """Plan an inquiry about a message, in case no answer arrives. ``sends``: how often it was sent."""

    def note_row_deleted(self, row: Outbound) -> None:
        """Note a message whose row was deleted when it was sent (class 2 without a receipt)."""


class Pump:
    """The lanes of one node, and the work that claims rows and sends them."""

    def __init__(self, core: Core, owner: LaneOwner) -> None:
        self._core = core
        self.owner = owner
        self.lanes: dict[str, Lane] = {}

    def lane(self, dest: str) -> Lane:
        """Return the lane of a destination; create it if needed."""
        lane = self.lanes.get(dest)
        if lane is None:
            lane = self.lanes[dest] = Lane(dest)
        return lane

    def capacity(self, lane: Lane) -> int:
        return self.owner.capacity(lane)

    def send(self, dest: str, frames: list[Data]) -> None:
        if frames:
            self.owner.send(dest, frames)

    def wake(self, row: Outbound) -> None:
        """Note that a row waits to be sent, perhaps before the cursor of its track."""
        lane = self.lane(row.dest)
        lane.tracks.wake(row.source, row.priority, row.object_id)
        self.run(lane)

    def wake_track(self, dest: str, source: str, priority: int) -> None:
        """Note that new rows wait after the cursor of their track."""
        lane = self.lane(dest)
        lane.tracks.wake(source, priority)
        self.run(lane)

    def wake_all(self, dest: str) -> None:
        """Read the known tracks of a destination again from the first row on."""
        lane = self.lane(dest)
        lane.tracks.wake_all(0)
        self.run(lane)

    def recover(self, tracks: Iterable[tuple[str, str, int]]) -> None:
        """Note the tracks in the store at the start: destination, source and priority."""
        for dest, source, priority in tracks:
            self.lane(dest).tracks.wake(source, priority)

    def unblock(self, dest: str) -> None:
        """Try blocked rows again: the window may have room, because a row has ended."""
        lane = self.lane(dest)
        lane.tracks.unblock()
        self.run(lane)

    def run(self, lane: Lane) -> None:
        """Claim the next rows of a lane, if it has rows and capacity."""
        if not lane.tracks.has_ready or lane.claiming:
            return
        limit = min(self.owner.capacity(lane), self._core.settings.claim_rows)
        if limit > 0:
            lane.claiming = True
            taken: list[tuple[Pick, int]] = []
            picks = lane.tracks.pick(lane.tracks.limited(limit))
            self._core.post(self._claim(lane, picks, taken), failed=partial(self._not_claimed, lane, taken))

    def _not_claimed(self, lane: Lane, taken: list[tuple[Pick, int]], error: Exception) -> None:
        lane.end_claim()
        if isinstance(error, RowRefused) and taken:
            lane.tracks.after_refusal(taken, is_passing=error.is_passing)
            self.run(lane)

    def run_all(self) -> None:
        for lane in list(self.lanes.values()):
            self.run(lane)

    def note_sent(self, lane: Lane, object_id: int, sends: int = 1) -> None:
        """Note that a message is under way, and plan an inquiry about it. ``sends``: how often it was sent."""
        lane.flight.add(object_id)
        self.owner.plan_inquiry(object_id, sends)

    def plan_inquiry(self, object_id: int) -> None:
        """Plan an inquiry about a row that went from SS_INIT to SS_ACK, because the hub has an earlier copy."""
        self.owner.plan_inquiry(object_id)

    @work
    def _claim(self, lane: Lane, picks: list[list[Pick]], taken: list[tuple[Pick, int]]) -> Steps:
        """S2 and H5: change rows from SS_INIT to SS_SENT, and send them after the commit (rule N8).

        ``taken`` gets the rows, for the case that Postgres refuses one of them.
        """
        bytes_max = self._core.settings.claim_bytes // len(picks)
        sources = [[(pick, _query(lane, pick, bytes_max)) for pick in source] for source in picks]
        unit = yield Needs(queries={query for source in sources for _, query in source})
        claims = [_Claims(self._core, self.owner, unit, source, bytes_max) for source in sources]
        taken[:] = [row for claim in claims for row in claim.taken]
        frames = interleaved([claim.frames for claim in claims])
        yield COMMITTED
        lane.claiming = False
        for claim in claims:
            claim.move_cursors(lane)
        for claim in claims:
            for object_id, sends in claim.sent:
                self.note_sent(lane, object_id, sends)
            for row in claim.deleted:
                self.owner.note_row_deleted(row)
        self.send(lane.dest, frames)
        events = [event for claim in claims for event in claim.events]
        if events:
            self._core.events.publish(events)
        self.run(lane)


def _query(lane: Lane, pick: Pick, bytes_max: int) -> Unsent:
    return Unsent(lane.dest, pick.after, pick.limit, bytes_max, pick.track.source, pick.track.priority)


class _Claims:
    """The claim of rows of one source, track by track, in one unit."""

    def __init__(
        self, core: Core, owner: LaneOwner, unit: Unit, reads: Sequence[tuple[Pick, Unsent]], bytes_max: int
    ) -> None:
        self._core = core
        self._owner = owner
        self._unit = unit
        self._rows_left, self._bytes_left = reads[0][0].limit, bytes_max
        self.frames: list[Data] = []
        self.taken: list[tuple[Pick, int]] = []  #: rows, each with its read
        self.sent: list[tuple[int, int]] = []  #: rows, each with the number of its sends
        self.deleted: list[Outbound] = []  #: copies of rows that are deleted when they are sent
        self.events: list[PreparedEvent] = []
        self._track_results = [(pick, *self._claim_track(pick, query)) for pick, query in reads]

    def _claim_track(self, pick: Pick, query: Unsent) -> tuple[int, bool, Outbound | None]:
        """Claim rows of one track. Return its cursor, whether rows were found, and the row that blocks it."""
        cursor, blocking = pick.after, None
        for row in self._unit.outbound_found(query):
            if self._rows_left <= 0 or self._bytes_left <= 0:
                break
            self._rows_left, self._bytes_left = self._rows_left - 1, self._bytes_left - row.size
            if not self._owner.may_claim(row):
                blocking = row
                break
            cursor = row.object_id
            self.taken.append((pick, row.object_id))
            if not row.held:  # earlier work of this unit may have held the row
                self._claim_row(row)
        return cursor, bool(self._unit.found.get(query)), blocking

    def _claim_row(self, row: Outbound) -> None:
        stored = self._unit.bodies.get(row.object_id)
        try:
            decode_envelope(stored)
        except BodyUnreadable as error:
            self._hold(row, error)
            return
        assert stored is not None
        frame = self._owner.claim(self._unit, row, stored, self.events)
        if frame is not None:
            self.frames.append(frame)
            # A row that is deleted when it is sent gets no answer, so it must not count as under way.
            if row.object_id in self._unit.deleted_outbound:
                self.deleted.append(replace(row))  # the object itself belongs to this unit
            else:
                self.sent.append((row.object_id, row.att))

    def _hold(self, row: Outbound, error: BodyUnreadable) -> None:
        row.held, row.reason = True, (error.code, error.text)
        self._unit.change_outbound(row, row.ss_status)
        side = Side.HUB if row.direction is Direction.RELAYED else Side.SENDER
        self._unit.ledger.append(self._core.line(side, Event.PARKED, row, shortened(str(error), 500)))
        self._core.count("unreadable")

    def move_cursors(self, lane: Lane) -> None:
        """Move the cursors of the tracks past the claimed rows."""
        for pick, cursor, found, blocking in self._track_results:
            # Check again: the floor may have moved while the transaction was open.
            blocked = blocking is not None and not self._owner.may_claim(blocking)
            lane.tracks.note_read(pick, cursor, found=found, blocked=blocked)
