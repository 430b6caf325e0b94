"""Positions in a stream, assigned in commit order in the transaction that inserts the row (rule N4, break F7).

Documents with the same order key form a sequence. Documents with @Fixed=1 and no order key form a sequence for each
target address.
"""

from msgspec.structs import replace

from semq.store.rows import OrderKey, Outbound, OutStream, OutStreamKey
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes
from semq.umx_t.locator import Pos

FIXED_KEY = "@Fixed"


def in_sequence(attributes: Attributes, target: Address) -> Attributes:
    """Return the attributes with the order key of their sequence."""
    if not attributes.fixed or attributes.order_key:
        return attributes
    return replace(attributes, order_key=f"{FIXED_KEY}/{target.user}" if target.user else FIXED_KEY)


def next_position(unit: Unit, row: Outbound, key: OutStreamKey) -> tuple[int, Pos | None]:
    """Return the next sid of a stream, and the position of the previous message with the row's order key; None if
    there is none."""
    stream = unit.out_streams.get(key)
    prev = unit.last_pos.get(OrderKey(key.dest, row.order_key)) if row.order_key else None
    return (stream.next_sid if stream is not None else 0), prev


def take_position(unit: Unit, row: Outbound, key: OutStreamKey) -> None:
    """Give a new row the next position of its stream."""
    row.sid, row.prev = next_position(unit, row, key)
    stream = unit.out_streams.setdefault(key, OutStream(key))
    stream.next_sid += 1
    unit.changed_out_streams.add(key)
    if row.order_key:
        order = OrderKey(key.dest, row.order_key)
        unit.last_pos[order] = Pos(row.lk0.inc, row.sid)
        unit.changed_last_pos.add(order)
