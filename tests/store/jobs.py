"""Pieces of work for tests of both stores: a small engine without the rules of the protocol.

An action depends on the unit and on drawn numbers only, so the same actions on two stores must leave the same rows.
"""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from semq.errors import BadInput
from semq.store.rows import (
    Event,
    GroupPlace,
    InStream,
    InStreamKey,
    LedgerLine,
    OrderKey,
    Outbound,
    OutStream,
    OutStreamKey,
    Pending,
    Recorded,
    Side,
    Slot,
    Stored,
)
from semq.store.unit import (
    ExpiredRows,
    FirstInOrder,
    InboxTracks,
    Needs,
    Query,
    StreamsTo,
    Unfinished,
    Unit,
    Unsent,
    Unsettled,
    Waiting,
)
from semq.store.work import COMMITTED, Steps, Work
from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, LK1, Pos, Store
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

HERE = Store(1, "10008")
INC = 0x7EDC_BA98_7654_3210
DESTS = (Address(1, "56001"), Address(1, "56002", "buyer"))
SOURCES = (InStreamKey(Store(1, "a", 2, 3), 9), InStreamKey(Store(1, "b"), 2**63 - 1))
KEYS = ("", "k", "schlüssel")
IDS = range(1, 13)  # few, so that actions meet rows of earlier actions
NOW = 1_790_000_000_000


class Job(Work):
    """A piece of work made of the function ``decide``. Its end adds its error (None: committed) to ``results``."""

    def __init__(self, decide: Callable[[Unit], Any] = lambda unit: None, needs: Needs | None = None) -> None:
        self.change = decide
        self._wanted = needs or Needs()
        self.results: list[Exception | None] = []
        self.decided = 0
        self.over = asyncio.Event()
        super().__init__(self._run, self._end)

    def _run(self) -> Steps:
        unit = yield self._wanted
        self.decided += 1
        self.change(unit)
        yield COMMITTED
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        self.results.append(error)
        self.over.set()


def body_of(number: int) -> Stored:
    return Stored(b"envelope %d" % number, bytes([number % 256]) * (number * 700 % 5000))


def own(number: int, variant: int = 0) -> Outbound:
    """Return a new own row; ``variant`` decides its other fields."""
    save_fwd = (SaveFwd.MUST, SaveFwd.MUST, SaveFwd.STORE, SaveFwd.DROP)[variant % 4]
    return Outbound(
        number,
        Direction.OWN,
        LK0(*HERE, INC, number),
        DESTS[variant // 4 % 2],
        save_fwd,
        ack2=variant % 3 != 0,
        order_key=KEYS[variant % 3] if save_fwd is SaveFwd.MUST else "",
        priority=variant % 3 * 2,
        app_key=AppKey("trade", "order", "", f"S{number:04}/ü") if variant % 2 else NO_KEY,
        token=f"token-{number}" if variant % 5 == 0 else None,
        digest=bytes([variant % 256]) * 32,
        size=len(body_of(number).payload),
        accepted_at=NOW + number,
        expires_at=NOW + variant if variant % 7 == 0 else 0,
        group=GroupPlace(2, 3, str(LK0(*HERE, INC, number - 2)), "3.retailers/desk") if variant % 6 == 0 else None,
        document=str(LK0(*HERE, INC, number + 7)) if variant % 6 == 1 else "",
    )


def line(event: Event, lk0: LK0, **facts: Any) -> LedgerLine:
    return LedgerLine(NOW, Side.SENDER, event, str(lk0), **facts)


# ------------------------------------------------------------------------------------------------ actions of a sender


def accept(unit: Unit, number: int, variant: int) -> None:
    row = own(number, variant)
    if number in unit.outbound or unit.tokens.get(row.token or "") is not None:
        raise BadInput("known", number=number)
    if row.save_fwd is SaveFwd.MUST:
        key = OutStreamKey(row.dest, INC)
        stream = unit.out_streams.setdefault(key, OutStream(key))
        row.sid, stream.next_sid = stream.next_sid, stream.next_sid + 1
        unit.changed_out_streams.add(key)
        if row.order_key:
            order = OrderKey(row.dest, row.order_key)
            row.prev = unit.last_pos.get(order)
            unit.last_pos[order] = Pos(INC, row.sid)
            unit.changed_last_pos.add(order)
    unit.insert_outbound(row, body_of(number))
    unit.ledger.append(line(Event.ACCEPTED, row.lk0, target=str(row.target), size=row.size, app_key=row.app_key))


def _step(change: Callable[[Unit, Outbound, int], None]) -> Callable[[Unit, int, int], None]:
    """Return an action that changes a row, if it exists and has no outcome."""

    def action(unit: Unit, number: int, variant: int) -> None:
        row = unit.outbound.get(number)
        if row is not None and row.outcome is None:
            before = row.ss_status
            change(unit, row, variant)
            unit.change_outbound(row, before)

    return action


def _claim(unit: Unit, row: Outbound, variant: int) -> None:
    row.ss_status, row.att = SendStatus.SS_SENT, row.att + 1
    unit.ledger.append(line(Event.SENT, row.lk0, att=row.att))


def _take_custody(unit: Unit, row: Outbound, variant: int) -> None:
    row.ss_status, row.custodian = SendStatus.SS_ACK, LK1(2, 3, variant)
    if not row.ack2:
        unit.drop_payload(row)


def _end(unit: Unit, row: Outbound, variant: int) -> None:
    row.outcome = list(Outcome)[variant % len(Outcome)]
    if row.outcome is Outcome.DELIVERED:
        row.ss_status = SendStatus.SS_ACK2
    if row.outcome is Outcome.LOST:
        row.void = row.lost = True
    if row.outcome is Outcome.REJECTED:
        row.reason = ("SEMQ-1101", "no such user")


def _make_void(unit: Unit, row: Outbound, variant: int) -> None:
    row.ss_status, row.att, row.void, row.size = SendStatus.SS_INIT, row.att + 1, True, 0
    unit.replace_body(row.object_id, Stored(b"void", b""))


def _sign_again(unit: Unit, row: Outbound, variant: int) -> None:
    unit.replace_envelope(row.object_id, b"signed again %d" % variant)


def _hold(unit: Unit, row: Outbound, variant: int) -> None:
    row.held, row.parked = bool(variant & 1), bool(variant & 2)


def clean(unit: Unit, number: int, variant: int) -> None:
    row = unit.outbound.get(number)
    if row is not None and row.outcome is not None:
        unit.delete_outbound(row)


def relay(unit: Unit, number: int, variant: int) -> None:
    """Insert a copy for another node, or delete it if it exists."""
    lk0 = LK0(*SOURCES[variant % 2].store, 9, number)
    held = unit.relayed.get(str(lk0))
    if held is not None:
        unit.delete_outbound(held)
    elif number + 1000 not in unit.outbound:
        copy = Outbound(number + 1000, Direction.RELAYED, lk0, DESTS[0], SaveFwd.STORE, ack2=False, sid=number)
        unit.insert_outbound(copy, body_of(number))


# ---------------------------------------------------------------------------------------------- actions of a receiver


def receive(unit: Unit, number: int, variant: int) -> None:
    source = SOURCES[variant % 2]
    slot = Slot(source, number)
    stream = unit.in_streams.get(source)
    if stream is None:
        stream = unit.in_streams[source] = InStream(source, number=variant % 2 + 1)
        unit.changed_in_streams.add(source)
    if slot in unit.recorded or number < stream.floor or number in unit.pending:
        return
    status = (Arrival.RECV, Arrival.RECV, Arrival.REJ, Arrival.VOID)[variant // 2 % 4]
    reason = ("SEMQ-5001", "cannot open") if status is Arrival.REJ else None
    unit.record(slot, Recorded(status, b"digest", reason))
    unit.insert_pending(pending_row(number, source, SaveFwd.MUST, status, variant), body_of(number))
    unit.ledger.append(
        LedgerLine(NOW, Side.RECEIVER, Event.RECEIVED, f"lk0-{number}", app_key=AppKey("a", "b", "c", "d"))
    )


def receive_class_2(unit: Unit, number: int, variant: int) -> None:
    source = SOURCES[variant % 2]
    row = pending_row(number, source, SaveFwd.STORE, Arrival.RECV, variant)
    ident = str(row.lk0)
    if ident in unit.seen or number in unit.pending:
        return
    unit.note_seen(row.lk0, Recorded(Arrival.RECV))
    row.sid = -1
    unit.insert_pending(row, body_of(number))


def pending_row(number: int, source: InStreamKey, save_fwd: SaveFwd, status: Arrival, variant: int) -> Pending:
    return Pending(
        number,
        LK0(*source.store, source.inc, 100 - number),  # accepted in another order than received
        number,
        Address(1, "10008", ("", "buyer")[variant // 8 % 2]),
        save_fwd,
        ack2=variant % 3 == 0,
        status=status,
        lk1=LK1(1, 2, number) if variant % 3 else None,
        prev=Pos(source.inc, number - 1) if variant % 2 else None,
        order_key=KEYS[variant % 3],
        priority=variant % 3 * 2,
        reason=("SEMQ-5001", "cannot open") if status is Arrival.REJ else None,
        size=len(body_of(number).payload),
        received_at=NOW,
    )


def settle(unit: Unit, number: int, variant: int) -> None:
    row = unit.pending.get(number)
    if row is None:
        return
    if variant % 5 == 0:
        row.p_ack_status = AckStatus.AS_ACK
        unit.platform_acked.add(number)
    elif variant % 5 == 1:
        row.s_ack_status = AckStatus.AS_ACK
        unit.sender_acked.add(number)
    elif variant % 5 in (2, 3):
        unit.change_app_status(row, (AppStatus.DONE, AppStatus.PARKED, AppStatus.NEW)[variant // 5 % 3])
    elif row.is_removable:
        unit.delete_pending(row)


def give(unit: Unit, number: int, variant: int) -> None:
    """Count a delivery, or take it back.

    It is the only action of its unit, because a delivery is committed before it is made (R6).
    """
    row = unit.pending.get(number)
    if row is not None and row.deliveries and variant % 3 == 0:
        row.deliveries -= 1
        unit.taken_back.add(number)
    elif row is not None:
        row.deliveries += 1
        unit.given.add(number)


def raise_floor(unit: Unit, number: int, variant: int) -> None:
    stream = unit.in_streams.get(SOURCES[variant % 2])
    if stream is not None:
        unit.raise_floor(stream, number)
        if variant % 5 == 0:
            stream.closed = number
            unit.changed_in_streams.add(stream.key)


def refuse(unit: Unit, number: int, variant: int) -> None:
    """Stage changes, then raise."""
    unit.ledger.append(line(Event.REFUSED, LK0(*HERE, INC, number), detail="must leave no trace"))
    accept(unit, number + 500, variant)
    raise BadInput("refused", number=number)


ACTIONS: tuple[Callable[[Unit, int, int], None], ...] = (
    accept, accept, _step(_claim), _step(_take_custody), _step(_end), _step(_make_void), _step(_sign_again),
    _step(_hold), clean, relay, receive, receive, receive_class_2, settle, settle, raise_floor, refuse, give,
)  # fmt: skip
GIVE = len(ACTIONS) - 1

Action = tuple[int, int, int]  # number of the action, id of the row, variant


def _all_needs() -> Needs:
    numbers = {n + offset for n in IDS for offset in (0, 500, 1000)}
    lk0s = [LK0(*source.store, 9, n) for source in SOURCES for n in IDS]
    lk0s += [LK0(*source.store, source.inc, 100 - n) for source in SOURCES for n in IDS]
    return Needs(
        outbound=numbers,
        relayed={str(lk0) for lk0 in lk0s},
        tokens={f"token-{n}" for n in numbers},
        out_streams={OutStreamKey(str(dest.node), INC) for dest in DESTS},
        last_pos={OrderKey(str(dest.node), key) for dest in DESTS for key in KEYS},
        in_streams=set(SOURCES),
        recorded={Slot(source, n) for source in SOURCES for n in IDS},
        seen={str(lk0) for lk0 in lk0s},
        pending=set(IDS),
        bodies=numbers,
    )


ALL_NEEDS = _all_needs()

QUERIES: tuple[Query, ...] = (
    *(Unsent(str(dest.node), after, limit, max_bytes, source, priority) for dest in DESTS for after in (0, 4)
      for limit in (2, 99) for max_bytes in (3000, 1 << 62) for source in ("", "1.10008") for priority in (0, 4)),
    Unsettled(1, 2000, 99), Unsettled(3, 7, 2), Unfinished(1, 2000, 99), Unfinished(3, 7, 2),
    *(Waiting(user, str(source.store.node), priority, after, 9, max_bytes) for user in ("", "buyer")
      for source in SOURCES for priority in (0, 4) for after in (0, 3) for max_bytes in (3000, 1 << 62)),
    InboxTracks(""), InboxTracks("buyer"), InboxTracks("nobody"), StreamsTo("1.56001"), StreamsTo("1.nobody"),
    ExpiredRows(NOW + 7, 99), ExpiredRows(NOW - 1, 99),
    *(FirstInOrder(str(source.store), key) for source in SOURCES for key in KEYS if key),
)  # fmt: skip


def job_of(action: Action) -> Job:
    number, row, variant = action
    return Job(lambda unit: ACTIONS[number](unit, row, variant), ALL_NEEDS)


def load_everything() -> tuple[Job, list[Unit]]:
    """Return a piece of work that loads all rows, and the list to which it adds its unit."""
    needs = Needs(queries=set(QUERIES))
    needs.add(ALL_NEEDS)
    seen: list[Unit] = []
    # A copy, because the rows are closed when the unit ends (tests.memory_store.ended).
    return Job(lambda unit: seen.append(deepcopy(unit)), needs), seen
