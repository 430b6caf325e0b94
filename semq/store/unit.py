"""One transaction: the rows it needs, the rows it loaded and its changes; the contract of engine and store.

The engine never speaks SQL. It posts ``Work``: the keys that it needs to see (``Needs``), a decision taken on the
loaded ``Unit`` while the transaction is open, and what follows after the commit. A store gathers all waiting work into
one unit, loads, lets each decide in order, writes, commits, and only then tells each that it is committed: nothing is
acknowledged before it is true. The decisions themselves are the grids of floor 0.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from semq.store.broker.operations import StoreOp
from semq.store.rows import (
    InStream,
    InStreamKey,
    LedgerLine,
    OrderKey,
    Outbound,
    OutStream,
    OutStreamKey,
    Pending,
    Rare,
    Reason,
    Recorded,
    Refusal,
    RetiredStore,
    Slot,
    Stored,
    Token,
    Wait,
)
from semq.umx_t.locator import LK0, Pos
from semq.umx_t.status import AppStatus, Direction, SendStatus


@dataclass(frozen=True, slots=True)
class Unsent:
    """Rows of tb_0031 in SS_INIT for one destination node, not held, in order of object_id, with their bodies.

    Of one source (empty: own rows) and one priority.
    """

    dest: str
    after: int  #: object_id, exclusive
    limit: int
    max_bytes: int = 1 << 62  #: stop after the row that reaches this many payload bytes
    source: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Rows of tb_0031 without an outcome and past SS_INIT, ``first`` to ``last`` (object_id, inclusive), narrow."""

    first: int
    last: int
    limit: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Rows of tb_0030, narrow, not DONE or with an acknowledgement owed; ``first`` to ``last`` (bref, inclusive)."""

    first: int
    last: int
    limit: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of tb_0030 with app_status NEW for one user, from one source and of one priority, in order of bref, with
    their bodies."""

    user: str
    source: str
    priority: int
    after: int  #: bref, exclusive
    limit: int


@dataclass(frozen=True, slots=True)
class WaitingTracks:
    """Sources and priorities of the rows of tb_0030 for one user, as pairs; of some, all rows may be handled."""

    user: str


@dataclass(frozen=True, slots=True)
class FirstInOrder:
    """The row of tb_0030, narrow, accepted first of those NEW with one source store and one order key.

    That is the lowest ``lk0.object_id``, not the lowest bref: they may be recorded out of order (PROTOCOL.md section
    11).
    """

    store: str
    order_key: str


@dataclass(frozen=True, slots=True)
class StreamsTo:
    """All streams to one destination node."""

    dest: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Rows of tb_0031 of this node without an outcome and not yet void whose ``expires_at`` has passed, narrow.

    Of classes 1 and 2 only those that have not been sent: the others leave nothing that could be withdrawn.
    """

    now: int  #: milliseconds since 1970 UTC
    limit: int


@dataclass(frozen=True, slots=True)
class SubmittedRows:
    """Rows that applications wrote through SQL (tb_0031_submit), oldest first, as rows.Submitted.

    The unit takes or refuses each of them.
    """

    limit: int
    without: tuple[str, ...] = ()  #: not those to these targets, as the rows name them
    bytes_max: int = 1 << 62  #: payloads that are larger are left out


@dataclass(frozen=True, slots=True)
class RefusedSubmissions:
    """Rows of tb_0031_submit that were refused, by the names of their refusals, as rows.Submitted without payloads."""

    lk0s: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenSubmission:
    """The row of tb_0031_submit of this number, if it was not refused, as rows.Submitted without payload."""

    number: int


@dataclass(frozen=True, slots=True)
class DoneRows:
    """What applications finished (``semq_done``) or set aside (``semq_park``) in their own transaction, as pairs.

    Each is a bref and None, or a bref and why it was set aside; oldest first.

    The unit notes those it has handled in ``taken_done``.
    """

    limit: int


@dataclass(frozen=True, slots=True)
class RefusedBy:
    """Rows of tb_0031 to one destination that ended REJECTED with this reason and keep their body, narrow.

    By object_id, those behind ``after``.
    """

    dest: str
    code: str  #: SEMQ-nnnn
    after: int
    limit: int


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """Session keys that were kept for one peer, the newest first, as rows.KeptKey."""

    peer: str
    limit: int


Query = (
    Unsent
    | Unsettled
    | Unfinished
    | Waiting
    | WaitingTracks
    | FirstInOrder
    | StreamsTo
    | Expired
    | SubmittedRows
    | RefusedSubmissions
    | OpenSubmission
    | DoneRows
    | RefusedBy
    | KeptKeys
)


@dataclass(slots=True)
class Needs:
    """The keys that a piece of work must see. Keys that have no row are simply absent from the unit."""

    outbound: set[int] = field(default_factory=set)
    relayed: set[str] = field(default_factory=set)  #: idents of copies held by the platform
    tokens: set[str] = field(default_factory=set)
    out_streams: set[OutStreamKey] = field(default_factory=set)
    last_pos: set[OrderKey] = field(default_factory=set)
    in_streams: set[InStreamKey] = field(default_factory=set)
    recorded: set[Slot] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)  #: idents of class 1 and 2
    pending: set[int] = field(default_factory=set)
    bodies: set[int] = field(default_factory=set)  #: object_ids of tb_0031 whose bodies are wanted too
    queries: set[Query] = field(default_factory=set)

    def __len__(self) -> int:
        """How many keys and queries these are."""
        return sum(len(getattr(self, name)) for name in self.__slots__)

    def add(self, other: "Needs") -> None:
        """Need also what another piece of work needs."""
        for name in self.__slots__:
            getattr(self, name).update(getattr(other, name))


class Gone(NamedTuple):
    """A row of tb_0031 that is deleted: as it ended, and the status that was loaded, which Postgres compares."""

    row: Outbound
    before: SendStatus


@dataclass(slots=True)
class Unit:
    """What was loaded, and what has been changed so far. Shared by all work of one transaction, in order."""

    # --- loaded; work sees what earlier work of the same unit changed
    outbound: dict[int, Outbound] = field(default_factory=dict)
    relayed: dict[str, Outbound] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    out_streams: dict[OutStreamKey, OutStream] = field(default_factory=dict)
    last_pos: dict[OrderKey, Pos] = field(default_factory=dict)
    in_streams: dict[InStreamKey, InStream] = field(default_factory=dict)
    recorded: dict[Slot, Recorded] = field(default_factory=dict)
    seen: dict[str, Recorded] = field(default_factory=dict)  #: by ident, of class 1 and 2
    pending: dict[int, Pending] = field(default_factory=dict)
    bodies: dict[int, Stored] = field(default_factory=dict)
    #: Rows of tb_0030's bodies: those of rows found by ``Waiting``.
    pending_bodies: dict[int, Stored] = field(default_factory=dict)
    #: What queries found: lists of Outbound, Pending, OutStream or Submitted. Stores put the bodies of rows found by
    #: Unsent into ``bodies`` and of those found by Waiting into ``pending_bodies``. Read rows through
    #: ``outbound_found`` and ``pending_found``.
    found: dict[Query, list[Any]] = field(default_factory=dict)

    # --- staged
    new_outbound: dict[int, Outbound] = field(default_factory=dict)
    changed_outbound: dict[int, SendStatus] = field(default_factory=dict)  #: object_id to the status that was loaded
    deleted_outbound: dict[int, Gone] = field(default_factory=dict)
    new_bodies: dict[int, Stored] = field(default_factory=dict)  #: of tb_0031; replaces an existing one
    dropped_bodies: set[int] = field(default_factory=set)  #: payloads given away (S4)
    new_tokens: dict[str, Token] = field(default_factory=dict)
    changed_out_streams: set[OutStreamKey] = field(default_factory=set)
    changed_last_pos: set[OrderKey] = field(default_factory=set)
    changed_in_streams: set[InStreamKey] = field(default_factory=set)
    raised_floors: set[InStreamKey] = field(default_factory=set)  #: ledger entries below are forgotten
    new_recorded: dict[Slot, Recorded] = field(default_factory=dict)
    given_way: set[Slot] = field(default_factory=set)  #: stored entries that the new ones at their places replace
    new_seen: dict[LK0, Recorded] = field(default_factory=dict)
    new_pending: dict[int, Pending] = field(default_factory=dict)
    new_pending_bodies: dict[int, Stored] = field(default_factory=dict)
    platform_acked: set[int] = field(default_factory=set)
    sender_acked: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    handled: dict[int, AppStatus] = field(default_factory=dict)
    deleted_pending: set[int] = field(default_factory=set)
    taken_submissions: dict[int, LK0] = field(default_factory=dict)  #: numbers, and what they have become
    refused_submissions: dict[int, Refusal] = field(default_factory=dict)
    requeued_submissions: set[int] = field(default_factory=set)  #: numbers of refused ones, to be tried again
    removed_submissions: set[int] = field(default_factory=set)  #: numbers of refused ones
    waiting_submissions: dict[int, Reason] = field(default_factory=dict)  #: numbers, and each its own reason
    submissions_wait: dict[str, Wait] | None = None  #: by target: replaces all that was said before
    taken_done: set[int] = field(default_factory=set)  #: brefs of ``DoneRows`` that have been handled
    ledger: list[LedgerLine] = field(default_factory=list)
    broker: list[StoreOp] = field(default_factory=list)  #: rows of the broker's own tables (events into durable queues)
    rare: list[Rare] = field(default_factory=list)  #: rows of tables that few units write

    # --- what queries found, as earlier work of the same unit has left it
    def outbound_found(self, query: Query) -> Iterator[Outbound]:
        """Rows of tb_0031: one object a row in the whole unit, rows deleted meanwhile left out."""
        for row in self.found.get(query, ()):
            if row.object_id not in self.deleted_outbound:
                yield self.outbound.setdefault(row.object_id, row)

    def pending_found(self, query: Query) -> Iterator[Pending]:
        """Rows of tb_0030: one object a row in the whole unit, rows deleted meanwhile left out."""
        for row in self.found.get(query, ()):
            if row.bref not in self.deleted_pending:
                yield self.pending.setdefault(row.bref, row)

    # --- tb_0031
    def insert_outbound(self, row: Outbound, body: Stored | None) -> None:
        """Add a row, with its envelope and payload unless the class keeps none."""
        self.outbound[row.object_id] = self.new_outbound[row.object_id] = row
        if row.direction is Direction.RELAYED:
            self.relayed[str(row.lk0)] = row  # the next frame in this unit may be the same message (break F13)
        if body is not None:
            self.bodies[row.object_id] = self.new_bodies[row.object_id] = body
        if row.token is not None:
            self.tokens[row.token] = self.new_tokens[row.token] = Token(row.lk0, row.digest)

    def change_outbound(self, row: Outbound, before: SendStatus) -> None:
        """Note that a row changed; ``before`` is its status when loaded, which Postgres compares (compare-and-set)."""
        if row.object_id not in self.new_outbound:
            self.changed_outbound.setdefault(row.object_id, before)

    def delete_outbound(self, row: Outbound) -> None:
        """Remove a row and its body."""
        self.outbound.pop(row.object_id, None)
        if row.direction is Direction.RELAYED:
            self.relayed.pop(str(row.lk0), None)
        self.bodies.pop(row.object_id, None)
        self.new_bodies.pop(row.object_id, None)
        before = self.changed_outbound.pop(row.object_id, row.ss_status)
        if self.new_outbound.pop(row.object_id, None) is None:
            self.deleted_outbound[row.object_id] = Gone(row, before)

    def replace_body(self, object_id: int, body: Stored) -> None:
        """Put another envelope and payload beside a row (void markers)."""
        self.bodies[object_id] = self.new_bodies[object_id] = body
        self.dropped_bodies.discard(object_id)

    def drop_payload(self, row: Outbound) -> None:
        """Let the payload go, keep the envelope (S4 with Ack2=0)."""
        row.has_payload = False
        if row.object_id in self.new_bodies:
            self.new_bodies[row.object_id] = Stored(self.new_bodies[row.object_id].envelope, b"")
        else:
            self.dropped_bodies.add(row.object_id)

    # --- tb_0030
    def insert_pending(self, row: Pending, body: Stored) -> None:
        """Add a received document."""
        self.pending[row.bref] = self.new_pending[row.bref] = row
        self.new_pending_bodies[row.bref] = body

    def record(self, slot: Slot, entry: Recorded) -> None:
        """Take a place in the receiver's ledger, in the transaction that inserts the row (rule R1)."""
        self.recorded[slot] = self.new_recorded[slot] = entry

    def see(self, lk0: LK0, entry: Recorded) -> None:
        """Remember a message of class 1 or 2, in the transaction that inserts the row (rule R2)."""
        self.seen[str(lk0)] = self.new_seen[lk0] = entry

    def give_way(self, slot: Slot) -> None:
        """Give up what was recorded at a place; ``record`` says what is there now."""
        if slot not in self.new_recorded:
            self.given_way.add(slot)

    def raise_floor(self, stream: InStream, floor: int) -> None:
        """Forget the ledger entries below ``floor``; a lower floor is old news."""
        if floor > stream.floor:
            stream.floor = floor
            self.changed_in_streams.add(stream.key)
            self.raised_floors.add(stream.key)

    def handle(self, row: Pending, status: AppStatus) -> None:
        """Note how far the application is with a document."""
        row.app_status = status
        self.handled[row.bref] = status

    def delete_pending(self, row: Pending) -> None:
        """Remove a row of tb_0030 and its body; its ledger entry stays until the floor passes it (rule R2)."""
        self.pending.pop(row.bref, None)
        self.new_pending_bodies.pop(row.bref, None)
        if self.new_pending.pop(row.bref, None) is None:
            self.deleted_pending.add(row.bref)


class Work(Protocol):
    """A piece of work for one transaction."""

    needs: Needs

    def decide(self, unit: Unit) -> None:
        """Decide and stage the changes; called once per attempt, with the transaction open.

        Must keep nothing from an earlier attempt. A SemqError refuses this work alone: nothing of it is written.
        """

    def committed(self) -> None:
        """The transaction is durable: frames, confirms and events may leave now.

        They are made of values kept in ``decide``: later work of the unit may have changed the rows (``ended``)."""

    def failed(self, error: Exception) -> None:
        """Refused by ``decide``, or the fate of the commit is unknown: abandon it, every handler is safe to abandon."""


class WorkStore(Protocol):
    """Where an engine posts its work; two implementations: Postgres and memory."""

    def post(self, work: Work, *, later: bool = False) -> None:
        """Queue a piece of work; posted order is kept.

        ``later``: nobody waits for its commit, so it may share that of other work. It waits for some moments at most.
        """


@dataclass(slots=True)
class StreamState:
    """What is unsettled of one stream of ours, found at start: enough to rebuild its floor."""

    key: OutStreamKey
    next_sid: int
    floor: int
    settled_above: set[int]


@dataclass(slots=True)
class Recovered:
    """What an engine must know of its store when a process starts (or after a lost connection)."""

    store_uuid: str
    boot: int  #: how often the store has been opened; ids of this life start at ``first_id``
    inc: int
    first_id: int
    streams: list[StreamState] = field(default_factory=list)
    backlog: dict[str, int] = field(default_factory=dict)  #: unsettled rows by destination node
    tracks: list[tuple[str, str, int]] = field(default_factory=list)  #: their destinations, sources and priorities
    unsettled: int = 0  #: rows of tb_0031 without an outcome
    settled: list[int] = field(default_factory=list)  #: rows that have an outcome and wait for cleanup
    finished: list[int] = field(default_factory=list)  #: rows of tb_0030 that wait for cleanup
    pending: int = 0  #: rows of tb_0030 that are not done
    retired: list[RetiredStore] = field(default_factory=list)  #: stores of the platform that are lost for good


def first_id(boot: int) -> int:
    """The first record id of a process life: 2**40 ids for each opening of the store, never given out twice."""
    return (boot << 40) + 1


def need(works: Iterable[Work]) -> Needs:
    """All that several pieces of work need to see."""
    together = Needs()
    for work in works:
        together.add(work.needs)
    return together
