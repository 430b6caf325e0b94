"""A limit of the event streams and long polls of each visitor."""

from collections import Counter
from collections.abc import Callable

from semq.web.errors import TooManyRequests


class Streams:
    """The numbers of open streams and long polls of visitors."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._open: Counter[str] = Counter()  #: key of the visitor | number

    def enter(self, key: str) -> Callable[[], None]:
        """Count a stream or long poll; return the function to call at its end. Raises TooManyRequests."""
        if self._open[key] >= self._at_most:
            raise TooManyRequests("Too many event streams or long polls are open.", at_most=self._at_most)
        self._open[key] += 1
        is_open = True

        def leave() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]

        return leave
