"""Readers of attribute values: AMQP header values as applications and peers send them, checked and converted.

A reader takes the attribute's name, for the error, and the value.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from semq.umx_t.app_key import AppKey, check_app_key, parse_app_key
from semq.umx_t.errors import BadAppKey, BadAttribute, BadEnvelope
from semq.umx_t.locator import LK1, Pos, parse_lk1, parse_pos
from semq.umx_t.status import SaveFwd

Read = Callable[[str, object], Any]
MOMENT_MAX = 253_402_300_799_999  # the last millisecond of the year 9999
MOMENT_MIN = 100_000_000_000  # in March 1973; a smaller number is in seconds by mistake
REPEATED_MAX = 256  # values in the cache of a ``repeated`` reader
_INT64_MAX = 2**63 - 1
_ATTEMPT_MAX = 2**31 - 1
_CLASSES: dict[object, SaveFwd] = {
    spelling: save_fwd for save_fwd in SaveFwd for spelling in (int(save_fwd), str(int(save_fwd)))
}


def flag(name: str, value: object) -> bool:
    """Read 0 or 1, as a number, a boolean or text. Raises BadAttribute."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if value in (1, "1"):
        return True
    if value in (0, "0"):
        return False
    raise BadAttribute(f"{name} must be 0 or 1.", attribute=name, value=str(value)[:60])


def save_fwd(name: str, value: object) -> SaveFwd:
    """Read the delivery class. Raises BadAttribute."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    delivery_class = _CLASSES.get(value) if isinstance(value, int | float | str) else None
    if delivery_class is None:
        raise BadAttribute(
            f"{name} must be 1 (drop), 2 (store) or 3 (must be delivered).", attribute=name, value=str(value)[:60]
        )
    return delivery_class


def number(name: str, value: object) -> int:
    """Read an integer from 0 to 2⁶³ − 1. Raises BadAttribute."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _INT64_MAX:
        raise BadAttribute(f"{name} must be an integer of 0 or more.", attribute=name, value=str(value)[:60])
    return value


def moment(name: str, value: object) -> int:
    """Read milliseconds since 1970 UTC. Raises BadAttribute."""
    if (read := number(name, value)) > MOMENT_MAX:
        raise BadAttribute(
            f"{name} must be in milliseconds since 1970, up to the year 9999.", attribute=name, value=value
        )
    return read


def given_moment(name: str, value: object) -> int:
    """Read milliseconds since 1970 UTC as an application gives them; 0: none. Raises BadAttribute."""
    if 0 < (read := moment(name, value)) < MOMENT_MIN:
        fault = f"{name} must be in milliseconds since 1970; this number is too small, it looks like seconds."
        raise BadAttribute(fault, attribute=name, value=value)
    return read


def attempt(name: str, value: object) -> int:
    """Read the number of an attempt, at most 2³¹ − 1. Raises BadAttribute."""
    if (read := number(name, value)) > _ATTEMPT_MAX:
        raise BadAttribute(
            f"{name} must be the number of an attempt, at most {_ATTEMPT_MAX}.", attribute=name, value=value
        )
    return read


def text(name: str, value: object, length_max: int) -> str:
    """Read printable text of at most ``length_max`` characters. Raises BadAttribute."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str) or len(value) > length_max or not value.isprintable():
        fault = f"{name} must be printable text of at most {length_max} characters."
        raise BadAttribute(fault, attribute=name, value=str(value)[:60])
    return value


def app_key(name: str, value: object) -> AppKey:
    """Read an AppKey: a text, or a list of its four parts. Raises BadAppKey."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, list | tuple) and len(value) == 4 and all(isinstance(part, str) for part in value):
        return check_app_key(AppKey(*value))
    if not isinstance(value, str):
        raise BadAppKey(app_key=str(value)[:80])
    return parse_app_key(value)


def digest(name: str, value: object) -> bytes:
    """Read a SHA-256 digest, or empty bytes. Raises BadEnvelope."""
    if not isinstance(value, bytes | bytearray) or len(value) not in (0, 32):
        raise BadEnvelope(f"{name} is not a SHA-256 digest.", digest=str(value)[:80])
    return bytes(value)


def pos(name: str, value: object) -> Pos:
    """Read a position in a stream. Raises BadLocator."""
    return parse_pos(value)


def lk1(name: str, value: object) -> LK1:
    """Read the locator of a stored copy. Raises BadLocator."""
    return parse_lk1(value)


READERS: dict[str, Read] = {
    read.__name__: read for read in (flag, save_fwd, number, moment, attempt, app_key, digest, pos, lk1)
}
WRITERS: dict[str, Callable[[Any], object]] = {"int": int, "str": str, "joined": "/".join, "hex": bytes.hex}


def reader_of(word: str) -> Read:
    """Return the reader for a value of column ``read`` in ``attributes``: a key of READERS, ``text N``, ``repeated N``.

    N is the maximum number of characters. ``repeated`` caches its results: thousands of messages have the same value.
    Raises KeyError.
    """
    kind, _, digits = word.partition(" ")
    if kind not in ("text", "repeated"):
        return READERS[word]
    length_max = int(digits)

    def read(name: str, value: object) -> str:
        return text(name, value, length_max)

    return lru_cache(REPEATED_MAX)(read) if kind == "repeated" else read
