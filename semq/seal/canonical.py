"""One encoding for everything that is authenticated: a label for its purpose, then the facts, in MessagePack.

Different facts never give the same octets: MessagePack carries types and lengths, keys are sorted, numbers take their
shortest form, and the label in front separates one purpose from every other. ``tagged`` makes plain values of what
applications put into headers; it must give the same for a value before and after its way through AMQP.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from semq.seal.errors import HeaderUnfit

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def canonical(label: str, *facts: Any) -> bytes:
    """The octets that stand for these facts under this label."""
    return _encode((label, *facts))


def tagged(value: Any) -> Any:
    """A value of a header with its type in front, so that 1, True, "1" and b"1" differ. Raises HeaderUnfit.

    Only what AMQP carries without loss: what it makes of other values would no longer be what was bound.
    """
    if value is None or isinstance(value, bool):
        return ["c", value]
    if isinstance(value, int):
        return ["i", int(value)]
    if isinstance(value, Decimal):
        return ["d", str(value.normalize())]
    if isinstance(value, float):
        return ["f", value.hex()]
    if isinstance(value, str):
        return ["s", str(value)]
    if isinstance(value, bytes | bytearray):
        return ["x", bytes(value)]
    if isinstance(value, Mapping):
        return ["t", {str(name): tagged(each) for name, each in value.items()}]
    if isinstance(value, list | tuple):
        return ["a", [tagged(each) for each in value]]
    raise HeaderUnfit(kind=type(value).__name__)
