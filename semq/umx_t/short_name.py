"""Short names of messages, to be read out and typed; the same at sender, hub and receiver (PROTOCOL.md section 2).

``OPENING-NUMBER-CHECK``, for instance ``7-4F2K-9QX7M``, in Crockford's base 32 (no I, L, O, U; any case; I and L are
read as 1, O as 0). OPENING and NUMBER are the high and the low bits of the record id in LK0. CHECK is the beginning of
the SHA-256 of the whole LK0: it distinguishes origins and detects typing mistakes.
"""

import re
from hashlib import sha256
from typing import NamedTuple

from semq.umx_t.locator import INT64_MAX

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
NUMBER_BITS = 40  # low bits of a record id; the bits above count the openings of its store
CHECK_LENGTH = 5  # 25 bits
_FORM = re.compile(r"([0-9A-TV-Z]{1,5})-([0-9A-TV-Z]{1,8})-([0-9A-TV-Z]{5})")
_READ_AS = str.maketrans("ILO", "110")


class ShortName(NamedTuple):
    """A parsed short name: the record id, and the check digits."""

    object_id: int
    check: str

    def fits(self, lk0: str) -> bool:
        """Return whether this is the short name of the message with this LK0."""
        return lk0.rpartition(".")[2] == str(self.object_id) and self.check == _check(lk0)


def short_name(lk0: str) -> str:
    """Return the short name of a message, or an empty string if the text does not end in a record id."""
    object_id = lk0.rpartition(".")[2]
    if not (object_id.isascii() and object_id.isdecimal()):
        return ""
    opening, number = divmod(int(object_id), 1 << NUMBER_BITS)
    return f"{_to_base32(opening)}-{_to_base32(number)}-{_check(lk0)}"


def read_short_name(text: str) -> ShortName | None:
    """Read a short name; return None if the text does not have its form."""
    match = _FORM.fullmatch(text.upper()) if text.isascii() else None
    if match is None:
        return None
    opening, number, check = (part.translate(_READ_AS) for part in match.groups())
    object_id = (_from_base32(opening) << NUMBER_BITS) + _from_base32(number)
    return ShortName(object_id, check) if object_id <= INT64_MAX else None


def _check(lk0: str) -> str:
    bits = int.from_bytes(sha256(lk0.encode("utf-8", "surrogatepass")).digest()[:4]) >> (32 - 5 * CHECK_LENGTH)
    return _to_base32(bits).rjust(CHECK_LENGTH, "0")


def _to_base32(number: int) -> str:
    digits = ALPHABET[number & 31]
    while number := number >> 5:
        digits = ALPHABET[number & 31] + digits
    return digits


def _from_base32(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number << 5 | ALPHABET.index(digit)
    return number
