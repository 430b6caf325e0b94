"""The columns of tb_0031 and tb_0030 with the fields of their rows, and the functions that are made from these lists.

Each line of a list has columns in the order of the schema, their field, the values of the columns, the value of the
field and, for columns that ``change_outbound`` changes, their packed values. A dot stands for the field or the column
itself, a dash for nothing. In the expressions, ``row`` is the row, the name of a column is the value read, and all
other names come from ``rows``. The functions are compiled at import, to be as fast as functions written by hand.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import fields
from sqlalchemy import Table

from semq.compiled import compiled

ToValues = Callable[[Any], tuple[Any, ...]]
R = TypeVar("R", bound=Struct)

OUTBOUND = """
columns                                    | field       | written as                                               | read as                                               | packed as
object_id                                  | object_id   | .                                                        | .                                                     | -
direction                                  | direction   | .                                                        | DIRECTION[direction]                                  | -
lk0, inc                                   | lk0         | str(row.lk0), row.lk0.inc                                | read_lk0(lk0)                                         | -
sid                                        | sid         | .                                                        | .                                                     | -
dest, dest_user                            | target      | f"{row.target.type}.{row.target.id}", row.target.user    | read_address(dest, dest_user)                         | -
save_fwd                                   | save_fwd    | .                                                        | CLASS[save_fwd]                                       | -
ack2                                       | ack2        | .                                                        | .                                                     | -
ss_status                                  | ss_status   | .                                                        | SEND[ss_status]                                       | STATUS[row.ss_status]
att                                        | att         | .                                                        | .                                                     | int4(row.att)
prev_inc, prev_sid                         | prev        | *(row.prev or NOWHERE)                                   | None if prev_inc is None else Pos(prev_inc, prev_sid) | -
order_key                                  | order_key   | .                                                        | .                                                     | -
app_domain, app_type, app_subtype, app_key | app_key     | *row.app_key                                             | key_of(app_domain, app_type, app_subtype, app_key)    | -
token                                      | token       | .                                                        | .                                                     | -
custodian                                  | custodian   | None if row.custodian is None else str(row.custodian)    | None if custodian is None else parse_lk1(custodian)   | -
void                                       | void        | .                                                        | .                                                     | TRUE if row.void else FALSE
lost                                       | lost        | .                                                        | .                                                     | TRUE if row.lost else FALSE
has_payload                                | has_payload | .                                                        | .                                                     | TRUE if row.has_payload else FALSE
held                                       | held        | .                                                        | .                                                     | TRUE if row.held else FALSE
parked                                     | parked      | .                                                        | .                                                     | TRUE if row.parked else FALSE
outcome                                    | outcome     | .                                                        | OUTCOME[outcome]                                      | None if row.outcome is None else STATUS[row.outcome]
reason_code, reason_text                   | reason      | *(row.reason or NO_REASON)                               | reason_of(reason_code, reason_text)                   | None if row.reason is None else row.reason[0].encode(), None if row.reason is None else row.reason[1].encode()
digest                                     | digest      | .                                                        | .                                                     | -
size                                       | size        | .                                                        | .                                                     | -
accepted_at                                | accepted_at | microseconds(row.accepted_at)                            | .                                                     | -
expires_at                                 | expires_at  | microseconds(row.expires_at) if row.expires_at else None | expires_at or 0                                       | -
source                                     | -           | .                                                        | -                                                     | -
priority                                   | priority    | .                                                        | .                                                     | -
group_place                                | group       | None if row.group is None else str(row.group)            | group_place and read_group_place(group_place)         | -
document                                   | document    | row.document or None                                     | document or ""                                        | -
"""

PENDING = """
columns                                    | field        | written as                                                       | read as                                               |
bref                                       | bref         | .                                                                | .                                                     |
lk0, store, inc, src_object_id             | lk0          | str(row.lk0), str(row.lk0.store), row.lk0.inc, row.lk0.object_id | read_lk0(lk0)                                         |
sid                                        | sid          | .                                                                | .                                                     |
target, target_user                        | target       | f"{row.target.type}.{row.target.id}", row.target.user            | read_address(target, target_user)                     |
save_fwd                                   | save_fwd     | .                                                                | CLASS[save_fwd]                                       |
ack2                                       | ack2         | .                                                                | .                                                     |
status                                     | status       | .                                                                | ARRIVAL[status]                                       |
lk1                                        | lk1          | None if row.lk1 is None else str(row.lk1)                        | None if lk1 is None else parse_lk1(lk1)               |
p_ack_status                               | p_ack_status | .                                                                | ACK[p_ack_status]                                     |
s_ack_status                               | s_ack_status | .                                                                | ACK[s_ack_status]                                     |
app_status                                 | app_status   | .                                                                | APP[app_status]                                       |
deliveries                                 | deliveries   | .                                                                | .                                                     |
prev_inc, prev_sid                         | prev         | *(row.prev or NOWHERE)                                           | None if prev_inc is None else Pos(prev_inc, prev_sid) |
order_key                                  | order_key    | .                                                                | .                                                     |
app_domain, app_type, app_subtype, app_key | app_key      | *row.app_key                                                     | key_of(app_domain, app_type, app_subtype, app_key)    |
reason_code, reason_text                   | reason       | *(row.reason or NO_REASON)                                       | reason_of(reason_code, reason_text)                   |
digest                                     | digest       | .                                                                | .                                                     |
size                                       | size         | .                                                                | .                                                     |
received_at                                | received_at  | microseconds(row.received_at)                                    | .                                                     |
proved                                     | proved       | .                                                                | .                                                     |
source                                     | -            | .                                                                | -                                                     |
priority                                   | priority     | .                                                                | .                                                     |
"""


class RowField(NamedTuple):
    """A line of a list: columns, their field, and three expressions; an empty text stands for none."""

    columns: tuple[str, ...]
    field: str
    written: str
    read: str
    packed: str


def read_table(text: str) -> list[RowField]:
    """Return the lines of a list, with the dots replaced."""
    return list(map(_line, text.strip().splitlines()[1:]))


def _line(text: str) -> RowField:
    columns, field, written, read, packed = (*(cell.strip() for cell in text.split("|")), "")[:5]
    names = tuple(columns.split(", "))
    return RowField(
        names,
        "" if field == "-" else field,
        f"row.{names[0]}" if written == "." else written,
        names[0] if read == "." else read,
        "" if packed == "-" else packed,
    )


def columns_of(lines: list[RowField]) -> Iterator[str]:
    """Yield all columns, in order."""
    for line in lines:
        yield from line.columns


def writer(lines: list[RowField], table: Table, names: Mapping[str, object]) -> ToValues:
    """Return the function from a row to the values of its columns. Raises TypeError for another schema."""
    if [*columns_of(lines)] != [column.name for column in table.columns]:
        raise TypeError(f"the columns of {table.name} are not those of its rows")
    body = [f"return ({', '.join(line.written for line in lines)},)"]
    function: ToValues = compiled(table.name, "row", body, names)
    return function


def reader(lines: list[RowField], row: type[R], names: Mapping[str, object]) -> Callable[[tuple[object, ...]], R]:
    """Return the function from the values of all columns to a row. Raises KeyError for a field without columns."""
    read = {line.field: line.read for line in lines}
    arguments = ", ".join(read[field.name] for field in fields(row))
    body = [f"{', '.join(columns_of(lines))} = values", f"return {row.__name__}({arguments})"]
    function: Callable[[tuple[object, ...]], R] = compiled(row.__name__, "values", body, {**names, row.__name__: row})
    return function


def packer(lines: list[RowField], table: Table, names: Mapping[str, object]) -> ToValues:
    """Return the function from a row to the packed values of the columns that change."""
    body = [f"return ({', '.join(line.packed for line in lines if line.packed)},)"]
    function: ToValues = compiled(table.name, "row", body, names)
    return function


def changes_of(lines: list[RowField], table: Table) -> tuple[tuple[str, str], ...]:
    """Return the columns that change after the insert, with their types in SQL."""
    changing = [name for line in lines if line.packed for name in line.columns]
    return tuple((name, str(table.columns[name].type).lower()) for name in changing)
