"""Rows of the contract as rows of Postgres, and back: one pair of functions a table, columns in the order of
``tables``.

Called by ``postgres_load`` and ``postgres_write`` for each row of each unit.
"""

from typing import Any

from semq.store.postgres_pack import (
    FALSE,
    TRUE,
    Param,
    int2,
    int4,
    int8,
    maybe_text,
    moment,
)
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
_SMALL4 = [int4(number) for number in range(256)]
_NO_KEY = (b"", b"", b"", b"")


def read_lk0(text: str) -> LK0:
    """A source locator that we wrote ourselves, so its form need not be checked again."""
    type_, id_, semq_id, semq_db_id, inc, object_id = text.split(".")
    return LK0(int(type_), id_, int(semq_id), int(semq_db_id), int(inc, 16), int(object_id))


def _reason(code: str | None, words: str | None) -> Reason | None:
    return None if code is None or words is None else (code, words)


def _pack_key(key: AppKey) -> tuple[bytes, bytes, bytes, bytes]:
    if key is NO_KEY:
        return _NO_KEY
    return key[0].encode(), key[1].encode(), key[2].encode(), key[3].encode()


def _pack_reason(reason: Reason | None) -> tuple[Param, Param]:
    return (None, None) if reason is None else (reason[0].encode(), reason[1].encode())


def _pack_pos(pos: Pos | None) -> tuple[Param, Param]:
    return (None, None) if pos is None else (int8(pos[0]), int8(pos[1]))


def _count(number: int) -> bytes:
    return _SMALL4[number] if 0 <= number < 256 else int4(number)


def pack_outbound(row: Outbound) -> list[Param]:
    """A row of tb_0031."""
    lk0, target = row.lk0, row.target
    custodian, outcome = row.custodian, row.outcome
    return [
        int8(row.object_id),
        STATUS[row.direction],
        str(lk0).encode(),
        int8(lk0.inc),
        int8(row.sid),
        f"{target.type}.{target.id}".encode(),
        target.user.encode(),
        STATUS[row.save_fwd],
        TRUE if row.ack2 else FALSE,
        STATUS[row.ss_status],
        _count(row.att),
        *_pack_pos(row.prev),
        row.order_key.encode(),
        *_pack_key(row.app_key),
        maybe_text(row.token),
        None if custodian is None else str(custodian).encode(),
        TRUE if row.void else FALSE,
        TRUE if row.lost else FALSE,
        TRUE if row.has_payload else FALSE,
        TRUE if row.held else FALSE,
        TRUE if row.parked else FALSE,
        None if outcome is None else STATUS[outcome],
        *_pack_reason(row.reason),
        row.digest,
        int8(row.size),
        moment(row.accepted_at),
        moment(row.expires_at) if row.expires_at else None,
    ]


def pack_changes(row: Outbound) -> tuple[Param, ...]:
    """What may change of a row of tb_0031, in the order of ``postgres_sql.CHANGES``."""
    custodian, outcome = row.custodian, row.outcome
    return (
        STATUS[row.ss_status],
        _count(row.att),
        None if custodian is None else str(custodian).encode(),
        TRUE if row.void else FALSE,
        TRUE if row.lost else FALSE,
        TRUE if row.has_payload else FALSE,
        TRUE if row.held else FALSE,
        TRUE if row.parked else FALSE,
        None if outcome is None else STATUS[outcome],
        *_pack_reason(row.reason),
        row.digest,
        int8(row.size),
        moment(row.expires_at) if row.expires_at else None,
    )


def outbound_of(values: Values) -> Outbound:
    """A row of tb_0031 as loaded."""
    (
        object_id, direction, lk0, _inc, sid, dest, user, save_fwd, ack2, ss_status, att, prev_inc, prev_sid, order_key,
        domain, type_, subtype, key, token, custodian, void, lost, has_payload, held, parked, outcome, code, words,
        digest, size, accepted_at, expires_at,
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
    )


def pack_pending(row: Pending) -> list[Param]:
    """A row of tb_0030."""
    lk0, lk1, target = row.lk0, row.lk1, row.target
    return [
        int8(row.bref),
        str(lk0).encode(),
        str(lk0.store).encode(),
        int8(lk0.inc),
        int8(lk0.object_id),
        int8(row.sid),
        f"{target.type}.{target.id}".encode(),
        target.user.encode(),
        STATUS[row.save_fwd],
        TRUE if row.ack2 else FALSE,
        STATUS[row.status],
        None if lk1 is None else str(lk1).encode(),
        STATUS[row.p_ack_status],
        STATUS[row.s_ack_status],
        STATUS[row.app_status],
        _count(row.deliveries),
        *_pack_pos(row.prev),
        row.order_key.encode(),
        *_pack_key(row.app_key),
        *_pack_reason(row.reason),
        row.digest,
        int8(row.size),
        moment(row.received_at),
    ]


def pending_of(values: Values) -> Pending:
    """A row of tb_0030 as loaded."""
    (
        bref, lk0, _store, _inc, _object_id, sid, target, user, save_fwd, ack2, status, lk1, p_ack, s_ack, app_status,
        deliveries, prev_inc, prev_sid, order_key, domain, type_, subtype, key, code, words, digest, size, received_at,
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
    )


def pack_recorded(stream: int, sid: int, entry: Recorded) -> list[Param]:
    """A row of tb_0030_ledger."""
    return [int8(stream), int8(sid), STATUS[entry.status], entry.digest, *_pack_reason(entry.reason)]


def recorded_of(values: Values) -> Recorded:
    """A row of tb_0030_ledger as loaded, without its key."""
    status, digest, code, words = values
    return Recorded(ARRIVAL[status], digest, _reason(code, words))


def pack_line(number: int, line: LedgerLine) -> list[Param]:
    """A row of semq_ledger."""
    return [
        int8(number),
        moment(line.at),
        int2(line.side),
        int2(line.event),
        line.lk0.encode(),
        line.target.encode(),
        _count(line.att),
        line.lk1.encode(),
        *_pack_key(line.app_key),
        line.digest,
        int8(line.size),
        line.detail.encode(),
    ]


def _key(domain: str, type_: str, subtype: str, key: str) -> AppKey:
    return AppKey(domain, type_, subtype, key) if domain or type_ or subtype or key else NO_KEY
