"""A check of the store in memory: after the unit of a row, only those of its fields can be read that never change.

All work of one unit shares a row object, so after the commit the row has the values of the last piece of work. Work
therefore keeps the values that it needs. A row whose unit has been written, rolled back or decided again raises
``LateRead`` for all fields that may change.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from msgspec.structs import fields

from semq.store.rows import InStream, Outbound, OutStream, Pending
from semq.store.unit import Unit

Row = Outbound | OutStream | InStream | Pending

# Fields that no work changes once a row exists.
FIXED: dict[type, tuple[str, ...]] = {
    Outbound: (
        "object_id", "direction", "lk0", "target", "save_fwd", "ack2", "sid", "prev", "order_key", "app_key", "token",
        "digest", "accepted_at", "expires_at", "priority",
    ),
    Pending: (
        "bref", "lk0", "sid", "target", "save_fwd", "ack2", "status", "prev", "order_key", "app_key", "reason",
        "digest", "size", "received_at", "priority",
    ),
    OutStream: ("key",),
    InStream: ("key", "number"),
}  # fmt: skip


class LateRead(AssertionError):
    """Work has read a field of a row after its unit, when later work of the unit may have changed it."""


def _closed(row_type: type) -> type:
    def refuse(name: str) -> property:
        def read(row: Any) -> NoReturn:
            raise LateRead(f"{row_type.__name__}.{name} is read after the unit; keep its value in decide.")

        return property(read)

    changing = {f.name: refuse(f.name) for f in fields(row_type) if f.name not in FIXED[row_type]}
    return type(f"Ended{row_type.__name__}", (row_type,), changing)


ENDED: dict[type, type] = {row_type: _closed(row_type) for row_type in FIXED}


def rows_of(unit: Unit) -> list[Row]:
    """Return all rows that were loaded for a unit."""
    tables = (unit.outbound, unit.relayed, unit.pending, unit.in_streams, unit.out_streams)
    rows: list[Row] = [row for table in tables if table for row in table.values()]
    for found in unit.found.values():
        rows += [row for row in found if type(row) in ENDED]
    return rows


def new_rows_of(unit: Unit) -> Iterator[Row]:
    """Yield the rows that work may have added to a unit; some of them were loaded."""
    yield from unit.new_outbound.values()
    yield from unit.new_pending.values()
    yield from unit.in_streams.values()
    yield from unit.out_streams.values()


def end(rows: Iterable[Row]) -> None:
    """Close rows: from now on only fields that never change can be read."""
    for row in rows:
        ended = ENDED.get(type(row))
        if ended is not None:
            row.__class__ = ended
