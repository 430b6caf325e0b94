"""Answers of operations as structs (``semq.answers``)."""

from typing import TypeVar

from semq.app.errors import UnreadableAnswer
from semq.foreign_text import shortened

T = TypeVar("T")


def read_answer(type_: type[T], answer: object) -> T:
    """Return the JSON values of an answer as a struct; further fields are ignored. Raises UnreadableAnswer."""
    import msgspec  # only for commands that read structs

    try:
        return msgspec.convert(answer, type_)
    except msgspec.ValidationError as error:
        raise UnreadableAnswer(fault=shortened(str(error), 200)) from error
