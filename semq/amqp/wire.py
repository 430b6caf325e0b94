"""Primitive types and field tables of AMQP 0-9-1: octets to values and back.

Called by ``codec`` (methods), ``content`` (properties) and ``sasl``. Decoders take a buffer and a position and give
the value and the next position; what is truncated or does not fit raises ``FrameError`` (501), what is illegal
``SyntaxFault`` (502). Nothing that a peer declares is allocated before it is there. Encoders raise ``LocalMisuse``.

| letter | meaning                 | Python           | letter | meaning          | Python      |
| ------ | ----------------------- | ---------------- | ------ | ---------------- | ----------- |
| t      | boolean                 | bool             | f d    | float, double    | float       |
| b B    | 8 bits, signed, unsigned | int             | D      | decimal          | Decimal     |
| s u    | 16 bits                 | int              | S      | long string      | str         |
| I i    | 32 bits                 | int              | x      | octets           | bytes       |
| l L    | 64 bits                 | int              | T      | POSIX seconds    | Timestamp   |
| F A    | table, array            | dict, list       | V      | nothing          | None        |

A long string that is not UTF-8 comes out as bytes. An int goes out as I, l or L, whichever is first large enough,
bytes as x. The letters are RabbitMQ's, which all clients follow; the letters of the specification differ. Names of
fields may hold any character: the rule of 4.2.5.5 (letters, $, # and _) is kept by no client, and would refuse
``x-match`` itself.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

TABLE_DEPTH = 64
"""How deep tables and arrays may be nested unless the owner says otherwise."""


class Timestamp(int):
    """POSIX seconds in a field table (letter T)."""

    __slots__ = ()


FieldValue: TypeAlias = "bool | int | float | str | bytes | Decimal | Table | FieldArray | None"
Table: TypeAlias = Mapping[str, FieldValue]
FieldArray: TypeAlias = Sequence[FieldValue]

Decoded: TypeAlias = tuple[Any, int]
