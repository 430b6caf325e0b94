"""Conversion between method frames and ``Method`` values, by the table of the specification.

Decoding raises ``FrameError`` for truncated or surplus data, ``SyntaxFault`` for illegal values and ``NotSupported``
for unknown methods. Encoding raises ``LocalMisuse``.
"""

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from semq.amqp.errors import AmqpError, FrameError, LocalMisuse, NotSupported
from semq.amqp.methods import METHODS, Method
from semq.amqp.spec import MethodRow
from semq.amqp.wire import (
    LONG,
    LONGLONG,
    OCTET,
    SHORT,
    TABLE_DEPTH,
    TRUNCATED,
    encode_table,
    long_string,
    read_long_string,
    read_short_string,
    read_table,
    short_string,
)

IDS = Struct(">HH")


class WireType(NamedTuple):
    """The writer and reader of one wire type, and the value of a reserved argument."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes, int, int], tuple[Any, int]]
    empty: Any


def _number(form: Struct) -> WireType:
    return WireType(form.pack, lambda data, at, _depth: (form.unpack_from(data, at)[0], at + form.size), 0)


WIRE_TYPES: dict[str, WireType] = {
    "octet": _number(OCTET),
    "short": _number(SHORT),
    "long": _number(LONG),
    "longlong": _number(LONGLONG),
    "timestamp": _number(LONGLONG),
    "shortstr": WireType(short_string, lambda data, at, _depth: read_short_string(data, at), ""),
    "longstr": WireType(long_string, lambda data, at, _depth: read_long_string(data, at), b""),
    "table": WireType(encode_table, read_table, {}),
}


class ArgumentStep(NamedTuple):
    """One argument, or the bits that share one octet (4.2.5.2). The name of a reserved argument is empty."""

    kind: WireType | None  # None for bits
    names: tuple[str, ...]


def _plan(row: MethodRow) -> tuple[ArgumentStep, ...]:
    steps: list[ArgumentStep] = []
    for name, kind in row.arguments:
        if kind != "bit":
            steps.append(ArgumentStep(WIRE_TYPES[kind], (name,)))
        elif steps and steps[-1].kind is None:
            steps[-1] = ArgumentStep(None, (*steps[-1].names, name))  # no method has more than eight bits in a row
        else:
            steps.append(ArgumentStep(None, (name,)))
    return tuple(steps)


PLANS: dict[type[Method], tuple[ArgumentStep, ...]] = {method: _plan(method.row) for method in METHODS.values()}


def encode_method(method: Method) -> bytes:
    """Return the payload of a method frame."""
    try:
        parts = [IDS.pack(*method.ids)]
        for kind, names in PLANS[type(method)]:
            if kind is None:
                parts.append(_pack_bits(method, names))
            else:
                parts.append(kind.write(getattr(method, names[0]) if names[0] else kind.empty))
    except (struct.error, TypeError, AttributeError) as error:
        raise LocalMisuse(f"{method.row.name} cannot carry these arguments: {error}") from error
    return b"".join(parts)


def _pack_bits(method: Method, names: tuple[str, ...]) -> bytes:
    octet = 0
    for bit, name in enumerate(names):
        if name and getattr(method, name):
            octet |= 1 << bit
    return OCTET.pack(octet)


def decode_method(payload: bytes, depth: int = TABLE_DEPTH) -> Method:
    """Return the method in the payload of a method frame; tables may be nested up to ``depth``."""
    if len(payload) < IDS.size:
        raise FrameError("a method frame without class and method id")
    ids = IDS.unpack_from(payload)
    method_class = METHODS.get(ids)
    if method_class is None:
        raise NotSupported(f"there is no method {ids[0]}.{ids[1]}", *ids)
    try:
        return method_class(*_arguments(payload, PLANS[method_class], depth))
    except TRUNCATED as error:
        raise FrameError(f"{method_class.row.name} is truncated", *ids) from error
    except AmqpError as error:
        raise error.at(*ids) from None


def _arguments(payload: bytes, plan: tuple[ArgumentStep, ...], depth: int) -> list[object]:
    values: list[object] = []
    at = IDS.size
    for kind, names in plan:
        if kind is None:
            octet = payload[at]
            values += [bool(octet >> bit & 1) for bit, name in enumerate(names) if name]
            at += 1
        else:
            value, at = kind.read(payload, at, depth)
            if names[0]:
                values.append(value)
    if at > len(payload):
        raise FrameError("the arguments are truncated")
    if at < len(payload):
        raise FrameError(f"{len(payload) - at} surplus bytes after the arguments")
    return values
