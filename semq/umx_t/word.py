"""What the words of the protocol have in common: members of enums that serve as keys of dictionaries on the hot path.

An Enum hashes its name by a function of Python, some hundred times for each message. Words are compared by identity,
statuses as the numbers that they are, so the hashes that C gives to objects and integers fit them as well.
"""

from enum import Enum, IntEnum


class Word(Enum):
    """A word of a grid or of a record."""

    __hash__ = object.__hash__


class Status(IntEnum):
    """A status as it stands in the database."""

    __hash__ = int.__hash__
