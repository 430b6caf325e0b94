"""One transaction of engine and store: the keys that it needs (``Needs``), and its loaded and changed rows (``Unit``).

``semq.store.work`` uses both.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from semq.store.broker.operations import StoreOp
from semq.store.rows import (
    ClientToken,
    InStream,
    InStreamKey,
    LedgerLine,
    OrderKey,
    Outbound,
    OutStream,
    OutStreamKey,
    Pending,
    RareChange,
    Reason,
    Recorded,
    RetiredStore,
    Slot,
    Stored,
    StoredPiece,
    SubmissionRefusal,
    Submitted,
    TargetWait,
)
from semq.umx_t.locator import LK0, Pos, Store
from semq.umx_t.status import AppStatus, Direction, SendStatus


class Unsent(Struct, frozen=True):
    """Unsent rows of tb_0031 (SS_INIT, not held) to one node, of one source and priority, with their bodies.

    The rows are in the order of their object_ids.
    """

    dest: str
    after: int  #: object_id, exclusive
    limit: int
    payloads_bytes_max: int = 1 << 62  #: the result ends with the row at which the payloads reach this size
    source: str = ""  #: empty: own rows
    priority: int = 0


class Unsettled(Struct, frozen=True):
    """Rows of tb_0031 without an outcome and past SS_INIT, in a range of object_ids (inclusive), without bodies."""

    first: int
    last: int
    limit: int


class Unfinished(Struct, frozen=True):
    """Rows of tb_0030 that are not removable, in a range of brefs (inclusive), without bodies."""

    first: int
    last: int
    limit: int


class Waiting(Struct, frozen=True):
    """Rows of tb_0030 with app_status NEW, of one user, source and priority, by bref, with their bodies."""

    user: str
    source: str
    priority: int
    after: int  #: bref, exclusive
    limit: int
    payloads_bytes_max: int = 1 << 62  #: the result ends with the row at which the payloads reach this size

    def is_cut(self, found: Sequence[Pending]) -> bool:
        """Return whether more rows than those found may wait."""
        return len(found) >= self.limit or sum(row.size for row in found) >= self.payloads_bytes_max


class InboxTracks(Struct, frozen=True):
    """Pairs of source and priority of one user's rows of tb_0030, with any app_status."""

    user: str


class FirstInOrder(Struct, frozen=True):
    """The NEW row of tb_0030 with the lowest ``lk0.object_id`` of one source store and order key, without body.

    The bref need not be the lowest (PROTOCOL.md section 11).
    """

    store: str
    order_key: str


class StreamsTo(Struct, frozen=True):
    """All streams to one destination node."""

    dest: str


class ExpiredRows(Struct, frozen=True):
    """Own rows of tb_0031 whose ``expires_at`` has passed, without an outcome and not void, without bodies.

    Rows of classes 1 and 2 only in SS_INIT: once sent, they cannot be withdrawn.
    """

    now: int
    limit: int


class SubmittedRows(Struct, frozen=True):
    """Rows of tb_0031_submit that are neither refused nor scheduled for later, oldest first.

    The result ends with the row at which payloads, headers and envelopes reach 16 MiB.
    """

    limit: int
    without: tuple[str, ...] = ()  #: targets to leave out, as given in the rows
    payload_bytes_max: int = 1 << 62  #: larger payloads are left empty, except those of scheduled submissions
    headers_bytes_max: int = 1 << 62  #: longer headers (as JSON) are not read


class RefusedSubmissions(Struct, frozen=True):
    """Refused rows of tb_0031_submit, selected by the LK0s of the refusals, without payloads and headers."""

    lk0s: tuple[str, ...]


class OpenSubmission(Struct, frozen=True):
    """The row of tb_0031_submit with this number, unless it was refused, without payload and headers."""

    number: int


class TokenSubmissions(Struct, frozen=True):
    """Scheduled rows of tb_0031_submit with these client tokens, unless refused, without payloads and headers."""

    tokens: tuple[str, ...]


class DueSubmissions(Struct, frozen=True):
    """Scheduled rows of tb_0031_submit that are due, the earliest first, and the next row that becomes due.

    Each result is a pair of number and time.
    """

    now: int
    limit: int


class DoneRows(Struct, frozen=True):
    """Documents that applications finished (``semq_done``) or parked (``semq_park``) in their own transaction, by bref.

    Each result is a pair of bref and reason for parking (None: finished).
    """

    limit: int


class RefusedBy(Struct, frozen=True):
    """Own rows of tb_0031 to one node that ended REJECTED with this reason and still have a payload (not loaded)."""

    dest: str
    code: str  #: SEMQ-nnnn
    after: int  #: object_id, exclusive
    limit: int


class KeptKeys(Struct, frozen=True):
    """Session keys kept for one peer, the newest first, as rows.KeptKey."""

    peer: str
    limit: int


Query = (
    Unsent
    | Unsettled
    | Unfinished
    | Waiting
    | InboxTracks
    | FirstInOrder
    | StreamsTo
    | ExpiredRows
    | SubmittedRows
    | RefusedSubmissions
    | OpenSubmission
    | TokenSubmissions
    | DueSubmissions
    | DoneRows
    | RefusedBy
    | KeptKeys
)


class Needs(Struct):
    """Keys and queries of a piece of work. Keys without a row are absent from the unit."""

    outbound: set[int] = field(default_factory=set)  #: object_ids
    relayed: set[str] = field(default_factory=set)  #: LK0s of copies that the hub stores
    tokens: set[str] = field(default_factory=set)
    out_streams: set[OutStreamKey] = field(default_factory=set)
    last_pos: set[OrderKey] = field(default_factory=set)
    in_streams: set[InStreamKey] = field(default_factory=set)
    recorded: set[Slot] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)  #: idents of class 1 and 2
    pending: set[int] = field(default_factory=set)  #: brefs
    bodies: set[int] = field(default_factory=set)  #: object_ids of tb_0031
    queries: set[Query] = field(default_factory=set)

    def __len__(self) -> int:
        return (
            len(self.outbound) + len(self.relayed) + len(self.tokens) + len(self.out_streams) + len(self.last_pos)
            + len(self.in_streams) + len(self.recorded) + len(self.seen) + len(self.pending) + len(self.bodies)
            + len(self.queries)
        )  # fmt: skip

    def add(self, other: "Needs") -> None:
        for name in self.__struct_fields__:
            if keys := getattr(other, name):
                getattr(self, name).update(keys)


class DeletedRow(NamedTuple):
    """A deleted row of tb_0031, and its status when loaded, which Postgres compares."""

    row: Outbound
    before: SendStatus


class Unit(Struct):
    """The loaded rows and the changes of one transaction. Work sees the changes of earlier work in the unit."""

    # --- loaded
    outbound: dict[int, Outbound] = {}
    relayed: dict[str, Outbound] = {}
    tokens: dict[str, ClientToken] = {}
    out_streams: dict[OutStreamKey, OutStream] = {}
    last_pos: dict[OrderKey, Pos] = {}
    in_streams: dict[InStreamKey, InStream] = {}
    recorded: dict[Slot, Recorded] = {}
    seen: dict[str, Recorded] = {}  #: by ident, of class 1 and 2
    pending: dict[int, Pending] = {}
    bodies: dict[int, Stored] = {}
    pending_bodies: dict[int, Stored] = {}
    #: results of queries; ``outbound_found`` and ``pending_found`` yield those that are rows of tb_0031 and tb_0030.
    #: The bodies of these rows are in ``bodies`` (``Unsent``) and ``pending_bodies`` (``Waiting``)
    found: dict[Query, list[Any]] = {}

    # --- staged
    new_outbound: dict[int, Outbound] = {}
    changed_outbound: dict[int, SendStatus] = {}  #: object_id to the status when loaded
    deleted_outbound: dict[int, DeletedRow] = {}
    new_bodies: dict[int, Stored] = {}  #: of tb_0031; they replace existing bodies
    new_envelopes: dict[int, bytes] = {}  #: of bodies of tb_0031 whose payload stays
    dropped_bodies: set[int] = set()  #: payloads deleted after custody (S4)
    new_tokens: dict[str, ClientToken] = {}
    cancelled_tokens: dict[str, ClientToken] = {}  #: of documents that were cancelled before they became messages
    changed_out_streams: set[OutStreamKey] = set()
    changed_last_pos: set[OrderKey] = set()
    changed_in_streams: set[InStreamKey] = set()
    raised_floors: set[InStreamKey] = set()  #: entries below the new floors are deleted
    new_recorded: dict[Slot, Recorded] = {}
    replaced_recorded: set[Slot] = set()  #: stored entries to be deleted before ``new_recorded``
    new_seen: dict[LK0, Recorded] = {}
    new_pending: dict[int, Pending] = {}
    new_pending_bodies: dict[int, Stored] = {}
    platform_acked: set[int] = set()  #: brefs whose ``p_ack_status`` becomes AS_ACK
    sender_acked: set[int] = set()  #: brefs whose ``s_ack_status`` becomes AS_ACK
    given: set[int] = set()  #: brefs of documents given to the application
    taken_back: set[int] = set()  #: brefs of documents whose last delivery did not leave the node
    changed_app_status: dict[int, AppStatus] = {}  #: bref to the new ``app_status``
    deleted_pending: set[int] = set()  #: brefs
    new_submissions: dict[int, Submitted] = {}  #: scheduled by this node
    due_submissions: set[int] = set()  #: numbers of scheduled rows to be accepted now
    taken_submissions: dict[int, LK0] = {}  #: by number, the LK0 of the message that each became
    refused_submissions: dict[int, SubmissionRefusal] = {}
    requeued_submissions: set[int] = set()  #: numbers of refused rows to be tried again
    removed_submissions: set[int] = set()  #: numbers
    waiting_submissions: dict[int, Reason] = {}  #: by number
    #: the new rows of tb_0031_wait, by target, instead of all present ones; None: no change
    submissions_wait: dict[str, TargetWait] | None = None
    taken_done: set[int] = set()  #: brefs of handled ``DoneRows``
    ledger: list[LedgerLine] = []
    broker: list[StoreOp] = []  #: operations on the broker's tables
    rare_changes: list[RareChange] = []

    # --- results of queries
    def outbound_found(self, query: Query) -> Iterator[Outbound]:
        """Yield the rows of tb_0031 that a query found, as changed by earlier work, without deleted ones."""
        for row in self.found.get(query, ()):
            if row.object_id not in self.deleted_outbound:
                yield self.outbound.setdefault(row.object_id, row)

    def pending_found(self, query: Query) -> Iterator[Pending]:
        """Yield the rows of tb_0030 that a query found, as ``outbound_found`` does."""
        for row in self.found.get(query, ()):
            if row.bref not in self.deleted_pending:
                yield self.pending.setdefault(row.bref, row)

    # --- tb_0031
    def insert_outbound(self, row: Outbound, body: Stored) -> None:
        self.outbound[row.object_id] = self.new_outbound[row.object_id] = row
        if row.direction is Direction.RELAYED:
            self.relayed[str(row.lk0)] = row  # the next frame may be the same message (PROTOCOL.md, F13)
        self.bodies[row.object_id] = self.new_bodies[row.object_id] = body

    def register_token(self, token: str, lk0: LK0, digest: bytes) -> None:
        """Note the document of a client token."""
        self.tokens[token] = self.new_tokens[token] = ClientToken(lk0, digest)

    def register_cancelled(self, token: str, lk0: LK0, digest: bytes) -> None:
        """Note the cancelled document of a token, unless the token has a document already."""
        self.cancelled_tokens[token] = self.tokens.setdefault(token, ClientToken(lk0, digest))

    def change_outbound(self, row: Outbound, before: SendStatus) -> None:
        """Note that a row changed. ``before``: its status when loaded, which Postgres compares."""
        if row.object_id not in self.new_outbound:
            self.changed_outbound.setdefault(row.object_id, before)

    def delete_outbound(self, row: Outbound) -> None:
        self.outbound.pop(row.object_id, None)
        if row.direction is Direction.RELAYED:
            self.relayed.pop(str(row.lk0), None)
        self.bodies.pop(row.object_id, None)
        self.new_bodies.pop(row.object_id, None)
        self.new_envelopes.pop(row.object_id, None)
        before = self.changed_outbound.pop(row.object_id, row.ss_status)
        if self.new_outbound.pop(row.object_id, None) is None:
            self.deleted_outbound[row.object_id] = DeletedRow(row, before)

    def replace_body(self, object_id: int, body: Stored) -> None:
        """Replace the body of a row of tb_0031."""
        self.bodies[object_id] = self.new_bodies[object_id] = body
        self.dropped_bodies.discard(object_id)
        self.new_envelopes.pop(object_id, None)

    def replace_envelope(self, object_id: int, envelope: bytes) -> None:
        """Replace the envelope of a row of tb_0031; its payload stays."""
        if object_id in self.new_bodies:
            self.replace_body(object_id, Stored(envelope, self.new_bodies[object_id].payload))
        else:
            self.new_envelopes[object_id] = envelope

    def drop_payload(self, row: Outbound) -> None:
        """Delete the payload of a row, and keep its envelope (S4 with Ack2=0)."""
        row.has_payload = False
        if row.object_id in self.new_bodies:
            self.new_bodies[row.object_id] = Stored(self.new_bodies[row.object_id].envelope, b"")
        else:
            self.dropped_bodies.add(row.object_id)

    # --- tb_0030
    def insert_pending(self, row: Pending, body: Stored) -> None:
        self.pending[row.bref] = self.new_pending[row.bref] = row
        self.new_pending_bodies[row.bref] = body

    def record(self, slot: Slot, entry: Recorded) -> None:
        """Add an entry to the receiver's ledger (R1)."""
        self.recorded[slot] = self.new_recorded[slot] = entry

    def note_seen(self, lk0: LK0, entry: Recorded) -> None:
        """Note a message of class 1 or 2 (R2)."""
        self.seen[str(lk0)] = self.new_seen[lk0] = entry

    def replace_recorded(self, slot: Slot) -> None:
        """Delete the stored entry at a position, before ``record`` adds a new one."""
        if slot not in self.new_recorded:
            self.replaced_recorded.add(slot)

    def raise_floor(self, stream: InStream, floor: int) -> None:
        """Raise the floor of a stream, and delete the entries below; ignore a lower floor."""
        if floor > stream.floor:
            stream.floor = floor
            self.changed_in_streams.add(stream.key)
            self.raised_floors.add(stream.key)

    def change_app_status(self, row: Pending, status: AppStatus) -> None:
        row.app_status = status
        self.changed_app_status[row.bref] = status

    def delete_pending(self, row: Pending) -> None:
        """Delete a row of tb_0030 and its body. The entry of the receiver's ledger stays (rule N2)."""
        self.pending.pop(row.bref, None)
        self.new_pending_bodies.pop(row.bref, None)
        if self.new_pending.pop(row.bref, None) is None:
            self.deleted_pending.add(row.bref)


class StreamState(Struct):
    """One own stream at the start."""

    key: OutStreamKey
    next_sid: int
    floor: int
    settled_above: set[int]  #: settled positions above the floor


class StoppedOrder(NamedTuple):
    """An order of received documents with a row in NEW that ends without a consumer when it is its turn (REJ, VOID)."""

    store: Store
    order_key: str
    user: str


class Recovered(Struct):
    """The state of the store for an engine that starts."""

    store_uuid: str
    boot: int  #: number of openings of the store
    inc: int
    first_id: int
    streams: list[StreamState] = field(default_factory=list)
    backlog: dict[str, int] = field(default_factory=dict)  #: unsettled rows by destination node
    tracks: dict[tuple[str, str, int], int] = field(default_factory=dict)  #: the same by dest, source and priority
    refused: dict[str, int] = field(default_factory=dict)  #: of ``backlog``, the copies that an operator has refused
    unsettled: int = 0  #: rows of tb_0031 without an outcome
    settled: list[int] = field(default_factory=list)  #: object_ids to be cleaned up
    finished: list[int] = field(default_factory=list)  #: brefs to be cleaned up
    pending: int = 0  #: rows of tb_0030 that are not removable
    stopped_orders: list[StoppedOrder] = field(default_factory=list)
    retired: list[RetiredStore] = field(default_factory=list)
    custody: list[tuple[int, int]] = field(default_factory=list)  #: see ``spans.in_custody``
    pieces: list[StoredPiece] = field(default_factory=list)


def first_id(boot: int) -> int:
    """Return the first record id of an opening of the store, which has 2**40 - 1 ids."""
    return (boot << 40) + 1
