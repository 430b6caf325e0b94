"""Base classes of the protocol's enums, with the C hashes of objects and integers.

A plain Enum hashes its name in Python code, about a hundred times for each message.
"""

from enum import Enum, IntEnum


class Word(Enum):
    """A word of a grid or of a record."""

    __hash__ = object.__hash__


class Status(IntEnum):
    """A status, as stored in the database."""

    __hash__ = int.__hash__
