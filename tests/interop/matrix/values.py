"""The values of the comparison: as clients send them, and as encoded fields that clients receive."""

import struct
from decimal import Decimal
from typing import Any, NamedTuple

from semq.amqp.wire import Timestamp, long_string, read_value

Shown = list[Any]  #: kind and value, as the programs of ``clients`` print them


class Given(NamedTuple):
    """A value that a client is asked to send: its name in the table, and kind and value for the programs."""

    name: str
    kind: str
    value: Any


INTEGERS = {
    "−2⁶³": -(2**63), "−2³¹ − 1": -(2**31) - 1, "−2³¹": -(2**31), "−129": -129, "−1": -1, "0": 0, "127": 127,
    "255": 255, "256": 256, "32,768": 32_768, "65,536": 65_536, "2³¹ − 1": 2**31 - 1, "2³¹": 2**31, "2³²": 2**32,
    "2⁵³ + 1": 2**53 + 1, "2⁶³ − 1": 2**63 - 1, "2⁶³": 2**63,
}  # fmt: skip
SENT = (
    *(Given(name, "int", str(value)) for name, value in INTEGERS.items()),
    Given("0.1", "float", "0.1"),
    Given("2.75", "float", "2.75"),
    Given("3.0", "float", "3.0"),
    Given("1e300", "float", "1e300"),
    Given("decimal 12.50", "decimal", "12.50"),
    Given("date 2026-03-31 12:00 UTC", "date", "1774958400"),
    Given("true", "bool", True),
    Given("nothing", "null", None),
    Given("text Grüße", "text", "Grüße"),
    Given("empty text", "text", ""),
    Given("text in GBK", "octets", "d6d0cec4"),
    Given("bytes ff 00", "bytes", "ff00"),
    Given("array [1, a]", "array", [["int", "1"], ["text", "a"]]),
    Given("table {n: 1}", "table", {"n": ["int", "1"]}),
)

#: The basic properties without ``headers``: name | kind | value, different for each
PROPERTIES = (
    Given("content_type", "text", "text/x-order"),
    Given("content_encoding", "text", "x-none"),
    Given("delivery_mode", "int", "2"),
    Given("priority", "int", "7"),
    Given("correlation_id", "text", "C-1"),
    Given("reply_to", "text", "answers"),
    Given("expiration", "text", "60000000"),
    Given("message_id", "text", "M-1"),
    Given("timestamp", "date", "1774958400"),
    Given("type", "text", "order"),
    Given("user_id", "text", "guest"),
    Given("app_id", "text", "erp"),
    Given("cluster_id", "text", "main"),
)

# Name | encoded value: letter and bytes
RECEIVED: dict[str, bytes] = {
    "t true": b"t\x01",
    "b −128": b"b\x80",
    "B 255": b"B\xff",
    "s −32,768": b"s\x80\x00",
    "u 65,535": b"u\xff\xff",
    "I −2³¹": b"I\x80\x00\x00\x00",
    "i 2³² − 1": b"i\xff\xff\xff\xff",
    "l −3,000,000,000": b"l" + struct.pack(">q", -3_000_000_000),
    "l 2⁵³ + 1": b"l" + struct.pack(">q", 2**53 + 1),
    "l 2⁶³ − 1": b"l" + struct.pack(">q", 2**63 - 1),
    "L −3,000,000,000": b"L" + struct.pack(">q", -3_000_000_000),
    "f 2.75": b"f" + struct.pack(">f", 2.75),
    "d 0.1": b"d" + struct.pack(">d", 0.1),
    "d 3.0": b"d" + struct.pack(">d", 3.0),
    "D 12.50": b"D\x02" + struct.pack(">i", 1250),
    "D −0.05": b"D\x02" + struct.pack(">i", -5),
    "T 2026-03-31 12:00": b"T" + struct.pack(">Q", 1_774_958_400),
    "V": b"V",
    "S Grüße": b"S" + long_string("Grüße".encode()),
    "S in GBK": b"S" + long_string(bytes.fromhex("d6d0cec4")),
    "x ff 00": b"x" + long_string(b"\xff\x00"),
    "A [l 1, S a]": b"A" + long_string(b"l" + struct.pack(">q", 1) + b"S" + long_string(b"a")),
    "F {n: l 1}": b"F" + long_string(b"\x01nl" + struct.pack(">q", 1)),
}


def shown(value: Any) -> Shown:
    """Return a decoded value in the form of the programs."""
    match value:
        case None:
            return ["null"]
        case bool():
            return ["bool", str(value).lower()]
        case Timestamp():
            return ["date", str(int(value))]
        case int():
            return ["int", str(value)]
        case float():
            return ["float", repr(value)]
        case Decimal():
            return ["decimal", str(value)]
        case str():
            return ["text", value]
        case bytes():
            return ["bytes", value.hex()]
        case list():
            return ["array", [shown(each) for each in value]]
        case dict():
            return ["table", {name: shown(each) for name, each in value.items()}]
    raise AssertionError(value)


def decoded(field: bytes) -> Any:
    """Return the value of an encoded field."""
    return read_value(field, 0, 64)[0]


def expected(given: Given) -> Shown:
    """Return how a value that a client sends must arrive."""
    match given.kind:
        case "octets" | "bytes":
            return ["bytes", given.value]
        case "bool":
            return ["bool", "true"]
        case "null":
            return ["null"]
        case "float":
            return ["float", repr(float(given.value))]
        case "array":
            return ["array", [list(each) for each in given.value]]
        case "table":
            return ["table", {name: list(each) for name, each in given.value.items()}]
    return [given.kind, given.value]


def is_same(one: Shown, other: Shown) -> bool:
    """Return whether two values are the same, whatever the type: an integer may be a float of the same value."""
    if one == other:
        return True
    numbers = {"int", "float", "decimal"}
    if one[0] in numbers and other[0] in numbers:
        return Decimal(one[1]) == Decimal(other[1])
    if one[0] == other[0] == "array":
        return len(one[1]) == len(other[1]) and all(map(is_same, one[1], other[1]))
    if one[0] == other[0] == "table":
        return bool(one[1].keys() == other[1].keys()) and all(is_same(one[1][name], other[1][name]) for name in one[1])
    return False
