"""Positions in a stream, assigned in commit order in the transaction that inserts the row (rule N4, break F7).

Documents with the same order key form a sequence. Documents with @Fixed=1 and no order key form a sequence for each
target address. ``HeldSequences`` keeps the order of submissions that wait before they get a position.
"""

from collections.abc import Container

from msgspec.structs import replace

from semq.engine.errors import WaitsBehind
from semq.store.rows import OrderKey, Outbound, OutStream, OutStreamKey
from semq.store.unit import Unit
from semq.umx_t.address import Address, NodeType
from semq.umx_t.envelope import Attributes
from semq.umx_t.locator import Pos

FIXED_KEY = "@Fixed"


def in_sequence(attributes: Attributes, target: Address) -> Attributes:
    """Return the attributes with the order key of their sequence."""
    if not attributes.fixed or attributes.order_key:
        return attributes
    return replace(attributes, order_key=f"{FIXED_KEY}/{target.user}" if target.user else FIXED_KEY)


class HeldSequences:
    """The sequences of submissions that wait. A later submission of such a sequence must not be accepted before them.

    A sequence is the order key and the destination. The members of a group are not known while a submission to it
    waits, so a submission to a group holds its order key for all destinations, and waits for it at any destination.
    """

    def __init__(self) -> None:
        #: by order key: for each submission that waits, its number and its destination ("": a group)
        self._held: dict[str, dict[int, str]] = {}
        self._keys: dict[int, str] = {}  #: order keys, by number

    def hold(self, number: int, attributes: Attributes, target: Address) -> None:
        if key := _order_key(attributes):
            self._held.setdefault(key, {})[number] = _destination(target)
            self._keys[number] = key

    def release(self, number: int) -> None:
        key = self._keys.pop(number, None)
        if key is not None:
            del self._held[key][number]
            if not self._held[key]:
                del self._held[key]

    def keep(self, numbers: Container[int]) -> None:
        """Release all submissions but those with these numbers."""
        for number in [number for number in self._keys if number not in numbers]:
            self.release(number)

    def check(self, number: int, attributes: Attributes, target: Address) -> None:
        """Raise WaitsBehind if an earlier submission of the same sequence waits."""
        destination = _destination(target)
        for earlier, other in self._held.get(_order_key(attributes), {}).items():
            if earlier < number and (not other or not destination or other == destination):
                raise WaitsBehind(number=earlier, order_key=attributes.order_key)


def _order_key(attributes: Attributes) -> str:
    """Return the order key; the same one for all documents with @Fixed=1 and no order key, because the users among the
    members of a group are not known."""
    key = attributes.order_key or (FIXED_KEY if attributes.fixed else "")
    return FIXED_KEY if key.startswith(f"{FIXED_KEY}/") else key


def _destination(target: Address) -> str:
    return str(target.node) if target.type not in (NodeType.GROUP, NodeType.USERS) else ""


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
