"""Base classes of the protocol's enums, whose members are keys of dictionaries on the hot path.

A plain Enum hashes its name in Python code, about a hundred times for each message. Words are compared by identity and
statuses by number, so the C hashes of objects and integers are correct for them.
"""

from enum import Enum, IntEnum


class Word(Enum):
    """A word of a grid or of a record."""

    __hash__ = object.__hash__


class Status(IntEnum):
    """A status, as stored in the database."""

    __hash__ = int.__hash__
