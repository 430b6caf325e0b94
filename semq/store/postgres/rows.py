"""Conversion of the contract's rows to rows of Postgres and back: one pair of functions per table, columns as in
``tables``.

Called by ``load`` and ``changes`` for each row of each unit; ``binary`` packs the values.
"""

from typing import Any

from semq.store.postgres.binary import FALSE, TRUE, Param, int2, int4, microseconds
from semq.store.rows import LedgerLine, Outbound, Pending, Reason, Recorded
from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, Pos, parse_lk1
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

Values = tuple[Any, ...]

# Status numbers, packed and unpacked: a look-up costs a tenth of a call of the enum.
STATUS = {
    int(status): int2(int(status))
    for statuses in (SendStatus, Outcome, AckStatus, AppStatus, Arrival, SaveFwd, Direction)
    for status in statuses
}
_SEND = {int(status): status for status in SendStatus}
_OUTCOME: dict[int | None, Outcome | None] = {None: None, **{int(outcome): outcome for outcome in Outcome}}
_ACK = {int(status): status for status in AckStatus}
_APP = {int(status): status for status in AppStatus}
ARRIVAL = {int(status): status for status in Arrival}
_CLASS = {int(status): status for status in SaveFwd}
_DIRECTION = {int(direction): direction for direction in Direction}
NOWHERE = NO_REASON = (None, None)


def read_lk0(text: str) -> LK0:
    """Return a source locator that SEMQ wrote itself, so that its form need not be checked again."""
    type_, id_, semq_id, semq_db_id, inc, object_id = text.split(".")
    return LK0(int(type_), id_, int(semq_id), int(semq_db_id), int(inc, 16), int(object_id))


def _reason(code: str | None, words: str | None) -> Reason | None:
    return None if code is None or words is None else (code, words)


def _moment(ms: int) -> int | None:
    return microseconds(ms) if ms else None


def outbound_values(row: Outbound) -> Values:
    """Return a row of tb_0031."""
    lk0, target, prev, custodian = row.lk0, row.target, row.prev, row.custodian
    return (
        row.object_id,
        row.direction,
        str(lk0),
        lk0.inc,
        row.sid,
        f"{target.type}.{target.id}",
        target.user,
        row.save_fwd,
        row.ack2,
        row.ss_status,
        row.att,
        *(prev or NOWHERE),
        row.order_key,
        *row.app_key,
        row.token,
        None if custodian is None else str(custodian),
        row.void,
        row.lost,
        row.has_payload,
        row.held,
        row.parked,
        row.outcome,
        *(row.reason or NO_REASON),
        row.digest,
        row.size,
        microseconds(row.accepted_at),
        _moment(row.expires_at),
        row.source,
        row.priority,
    )


def pack_changes(row: Outbound) -> tuple[Param, ...]:
    """Return the changeable values of a row of tb_0031, packed, in the order of ``statements.CHANGES``.

    Rows with equal values are changed by one statement, so nothing here may be specific to one document.
    """
    outcome, reason = row.outcome, row.reason
    return (
        STATUS[row.ss_status],
        int4(row.att),
        TRUE if row.void else FALSE,
        TRUE if row.lost else FALSE,
        TRUE if row.has_payload else FALSE,
        TRUE if row.held else FALSE,
        TRUE if row.parked else FALSE,
        None if outcome is None else STATUS[outcome],
        None if reason is None else reason[0].encode(),
        None if reason is None else reason[1].encode(),
    )


def outbound_of(values: Values) -> Outbound:
    """Return a row of tb_0031 as loaded."""
    (
        object_id, direction, lk0, _inc, sid, dest, user, save_fwd, ack2, ss_status, att, prev_inc, prev_sid, order_key,
        domain, type_, subtype, key, token, custodian, void, lost, has_payload, held, parked, outcome, code, words,
        digest, size, accepted_at, expires_at, _source, priority,
    ) = values  # fmt: skip
    node_type, _, node_id = dest.partition(".")
    return Outbound(
        object_id,
        _DIRECTION[direction],
        read_lk0(lk0),
        Address(int(node_type), node_id, user),
        _CLASS[save_fwd],
        ack2,
        _SEND[ss_status],
        att,
        sid,
        None if prev_inc is None else Pos(prev_inc, prev_sid),
        order_key,
        _key(domain, type_, subtype, key),
        token,
        None if custodian is None else parse_lk1(custodian),
        void,
        lost,
        has_payload,
        held,
        parked,
        _OUTCOME[outcome],
        _reason(code, words),
        digest,
        size,
        accepted_at,
        expires_at or 0,
        priority,
    )


def pending_values(row: Pending) -> Values:
    """Return a row of tb_0030."""
    lk0, lk1, target = row.lk0, row.lk1, row.target
    return (
        row.bref,
        str(lk0),
        str(lk0.store),
        lk0.inc,
        lk0.object_id,
        row.sid,
        f"{target.type}.{target.id}",
        target.user,
        row.save_fwd,
        row.ack2,
        row.status,
        None if lk1 is None else str(lk1),
        row.p_ack_status,
        row.s_ack_status,
        row.app_status,
        row.deliveries,
        *(row.prev or NOWHERE),
        row.order_key,
        *row.app_key,
        *(row.reason or NO_REASON),
        row.digest,
        row.size,
        microseconds(row.received_at),
        row.proved,
        row.source,
        row.priority,
    )


def pending_of(values: Values) -> Pending:
    """Return a row of tb_0030 as loaded."""
    (
        bref, lk0, _store, _inc, _object_id, sid, target, user, save_fwd, ack2, status, lk1, p_ack, s_ack, app_status,
        deliveries, prev_inc, prev_sid, order_key, domain, type_, subtype, key, code, words, digest, size, received_at,
        proved,
        _source, priority,
    ) = values  # fmt: skip
    node_type, _, node_id = target.partition(".")
    return Pending(
        bref,
        read_lk0(lk0),
        sid,
        Address(int(node_type), node_id, user),
        _CLASS[save_fwd],
        ack2,
        ARRIVAL[status],
        None if lk1 is None else parse_lk1(lk1),
        _ACK[p_ack],
        _ACK[s_ack],
        _APP[app_status],
        deliveries,
        None if prev_inc is None else Pos(prev_inc, prev_sid),
        order_key,
        _key(domain, type_, subtype, key),
        _reason(code, words),
        digest,
        size,
        received_at,
        proved,
        priority,
    )


def recorded_values(stream: int, sid: int, entry: Recorded) -> Values:
    """Return a row of tb_0030_ledger."""
    return (stream, sid, entry.status, entry.digest, *(entry.reason or NO_REASON), entry.proved)


def recorded_of(values: Values) -> Recorded:
    """Return a row of tb_0030_ledger as loaded, without its key."""
    status, digest, code, words, proved = values
    return Recorded(ARRIVAL[status], digest, _reason(code, words), proved)


def seen_of(values: Values) -> Recorded:
    """Return a row of tb_0030_seen as loaded, without its key."""
    status, code, words = values
    return Recorded(ARRIVAL[status], reason=_reason(code, words))


def line_values(number: int, line: LedgerLine) -> Values:
    """Return a row of semq_ledger."""
    return (
        number,
        microseconds(line.at),
        line.side,
        line.event,
        line.lk0,
        line.target,
        line.att,
        line.lk1,
        *line.app_key,
        line.digest,
        line.size,
        line.detail,
    )


def _key(domain: str, type_: str, subtype: str, key: str) -> AppKey:
    return AppKey(domain, type_, subtype, key) if domain or type_ or subtype or key else NO_KEY
