"""Range requests (RFC 9110, section 14), for instance to continue a download.

One range of bytes is answered with 206. A request for several ranges, for another unit, or with a condition (If-Range)
that does not hold is answered with the whole body, as the standard allows.
"""

import re
from typing import NamedTuple, Self

from starlette.requests import Request

from semq.service.operations.arguments import INT64_MAX
from semq.web.errors import RangeNotSatisfiable

UNIT = "bytes"
RANGE = re.compile(r"([0-9]{0,40})-([0-9]{0,40})")  # at most 40 digits: int() raises for thousands


class Extent(NamedTuple):
    """Consecutive bytes of a body."""

    begin: int
    end: int  #: after the last byte

    @property
    def size(self) -> int:
        return self.end - self.begin


class ByteRange(NamedTuple):
    """A range as a request names it: the bytes from ``first`` to ``last``, inclusive; or the last ``suffix`` bytes."""

    first: int = 0
    last: int = INT64_MAX - 1  #: by default all bytes to the end
    suffix: int | None = None

    @classmethod
    def requested(cls, request: Request) -> Self | None:
        """Return the range of a request; None if the whole body has to be sent."""
        text = request.headers.get("range")
        return cls.read(text) if text is not None and request.method == "GET" else None

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the range in the header ``Range``; None if the header has to be ignored."""
        unit, _, ranges = text.partition("=")
        requested = [part.strip(" \t") for part in ranges.split(",") if part.strip(" \t")]
        match = RANGE.fullmatch(requested[0]) if len(requested) == 1 and unit.strip().lower() == UNIT else None
        if match is None or not any(match.groups()):
            return None
        first, last = (min(int(number), INT64_MAX - 1) if number else None for number in match.groups())
        if first is None:
            return cls(suffix=last)
        if last is None:
            return cls(first)
        return cls(first, last) if first <= last else None

    @property
    def expected(self) -> Extent:
        """The bytes to read before the size of the body is known; none for a suffix."""
        return Extent(0, 0) if self.suffix is not None else Extent(self.first, self.last + 1)

    def within(self, size: int) -> Extent:
        """Return the bytes of a body of this size. Raises RangeNotSatisfiable if the body has none of them."""
        begin, end = self.first, min(self.last + 1, size)
        if self.suffix is not None:
            begin, end = max(size - self.suffix, 0), size
        if begin >= end:
            raise RangeNotSatisfiable(size=size)
        return Extent(begin, end)


def entity_tag(digest: str) -> str:
    """Return the strong entity tag of a body with this digest; an empty text without a digest."""
    return f'"{digest}"' if digest else ""


def if_range_holds(request: Request, tag: str) -> bool:
    """Whether the condition of a range (If-Range) holds. A time never holds, because bodies have no Last-Modified."""
    condition = request.headers.get("if-range")
    return condition is None or (bool(tag) and condition.strip() == tag)
