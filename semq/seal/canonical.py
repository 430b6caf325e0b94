"""The encoding of all authenticated data: a label for the purpose, then the facts, in MessagePack.

Facts are None, bool, int, float, str, bytes, and arrays or maps of these. Different facts never give the same bytes:
MessagePack encodes types and lengths, and the label separates the purposes. Equal facts of one type give the same
bytes: keys are sorted, and integers have their shortest form. Other values, such as Decimal, need ``tagged`` first.
"""

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from semq.seal.errors import HeaderUnfit

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def canonical(label: str, *facts: object) -> bytes:
    """Return the encoding of these facts under this label."""
    return _encode((label, *facts))


def tagged(value: object) -> object:
    """Return a header value together with its type, so that 1, True, "1" and b"1" differ.

    The result is the same before and after transport over AMQP. Raises HeaderUnfit for a type that AMQP does not carry.
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
        return ["t", {str(name): tagged(item) for name, item in value.items()}]
    if isinstance(value, list | tuple):
        return ["a", [tagged(item) for item in value]]
    raise HeaderUnfit(kind=type(value).__name__)
