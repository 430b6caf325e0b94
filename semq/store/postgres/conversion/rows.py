"""Conversion of the rows of ``semq.store.rows`` to values of columns and back: functions for each table.

The functions for tb_0031 and tb_0030 are made from the lists in ``columns``.
"""

from collections.abc import Callable
from typing import Any

from semq.store import tables
from semq.store.postgres.conversion.binary import FALSE, TRUE, Param, int2, int4, microseconds
from semq.store.postgres.conversion.columns import OUTBOUND, PENDING, changes_of, packer, read_table, reader, writer
from semq.store.rows import LedgerLine, Outbound, Pending, Reason, Recorded, read_group_place
from semq.umx_t.address import Address, parse_address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, Pos, parse_lk1
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

Values = tuple[Any, ...]

# Tables, because a look-up costs a tenth of a call of the enum.
STATUS = {
    int(status): int2(int(status))
    for statuses in (SendStatus, Outcome, AckStatus, AppStatus, Arrival, SaveFwd, Direction)
    for status in statuses
}
SEND = {int(status): status for status in SendStatus}
OUTCOME: dict[int | None, Outcome | None] = {None: None, **{int(outcome): outcome for outcome in Outcome}}
ACK = {int(status): status for status in AckStatus}
APP = {int(status): status for status in AppStatus}
ARRIVAL = {int(status): status for status in Arrival}
CLASS = {int(status): status for status in SaveFwd}
DIRECTION = {int(direction): direction for direction in Direction}
NOWHERE = NO_REASON = (None, None)  # the two columns of a missing position, and of a missing reason


def read_lk0(text: str) -> LK0:
    """Read an LK0 that SEMQ itself has stored, without a check of its form."""
    type_, id_, semq_id, semq_db_id, inc, object_id = text.split(".")
    return LK0(int(type_), id_, int(semq_id), int(semq_db_id), int(inc, 16), int(object_id))


def reason_of(code: str | None, words: str | None) -> Reason | None:
    """Return a reason from its columns."""
    return None if code is None or words is None else (code, words)


def read_address(node: str, user: str) -> Address:
    """Return an address from its two columns; ``user`` may be empty."""
    return parse_address(f"{node}/{user}") if user else parse_address(node)


def key_of(domain: str, type_: str, subtype: str, key: str) -> AppKey:
    """Return an AppKey from its columns."""
    return AppKey(domain, type_, subtype, key) if domain or type_ or subtype or key else NO_KEY


# Names in the lists of ``columns``.
_NAMES = {
    "ACK": ACK,
    "APP": APP,
    "ARRIVAL": ARRIVAL,
    "CLASS": CLASS,
    "DIRECTION": DIRECTION,
    "OUTCOME": OUTCOME,
    "SEND": SEND,
    "STATUS": STATUS,
    "TRUE": TRUE,
    "FALSE": FALSE,
    "NOWHERE": NOWHERE,
    "NO_REASON": NO_REASON,
    "Pos": Pos,
    "int4": int4,
    "microseconds": microseconds,
    "parse_lk1": parse_lk1,
    "read_lk0": read_lk0,
    "key_of": key_of,
    "read_address": read_address,
    "read_group_place": read_group_place,
    "reason_of": reason_of,
}
_OUT, _PEND = read_table(OUTBOUND), read_table(PENDING)

outbound_values: Callable[[Outbound], Values] = writer(_OUT, tables.tb_0031, _NAMES)
outbound_of: Callable[[Values], Outbound] = reader(_OUT, Outbound, _NAMES)
pending_values: Callable[[Pending], Values] = writer(_PEND, tables.tb_0030, _NAMES)
pending_of: Callable[[Values], Pending] = reader(_PEND, Pending, _NAMES)
# The columns of tb_0031 that ``change_outbound`` changes. Rows with equal values in these columns share one UPDATE; so
# the custodian, which differs for each row, is written separately.
CHANGES = changes_of(_OUT, tables.tb_0031)
pack_changes: Callable[[Outbound], tuple[Param, ...]] = packer(_OUT, tables.tb_0031, _NAMES)


def recorded_values(stream: int, sid: int, entry: Recorded) -> Values:
    """Return the values of a row of tb_0030_ledger."""
    return (stream, sid, entry.status, entry.digest, *(entry.reason or NO_REASON), entry.proved)


def recorded_of(values: Values) -> Recorded:
    """Return the entry in a row of tb_0030_ledger; ``values`` are its columns without the key."""
    status, digest, code, words, proved = values
    return Recorded(ARRIVAL[status], digest, reason_of(code, words), proved)


def seen_of(values: Values) -> Recorded:
    """Return the entry in a row of tb_0030_seen; ``values`` are its columns without the key."""
    status, code, words = values
    return Recorded(ARRIVAL[status], reason=reason_of(code, words))


def line_values(number: int, line: LedgerLine) -> Values:
    """Return the values of a row of semq_ledger."""
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
