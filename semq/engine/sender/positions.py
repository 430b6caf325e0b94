"""Places in a stream: given in commit order, in the transaction of the insert (rule N4, break F7)."""

from semq.store.rows import OrderKey, Outbound, OutStream, OutStreamKey
from semq.store.unit import Unit
from semq.umx_t.locator import Pos


def take_position(unit: Unit, row: Outbound, key: OutStreamKey) -> None:
    """Give a new row the next sid of its stream and, in an order, the place of the message before it."""
    stream = unit.out_streams.get(key)
    if stream is None:
        stream = unit.out_streams[key] = OutStream(key)
    row.sid = stream.next_sid
    stream.next_sid += 1
    unit.changed_out_streams.add(key)
    if row.order_key:
        order = OrderKey(key.dest, row.order_key)
        row.prev = unit.last_pos.get(order)
        unit.last_pos[order] = Pos(row.lk0.inc, row.sid)
        unit.changed_last_pos.add(order)
