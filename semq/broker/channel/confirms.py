"""Publisher confirms of one channel: numbers are assigned, outcomes arrive in any order, few frames are sent. Pure.

Used by ``channel``. Rule (RabbitMQ): numbers start at 1 with confirm.select; each is acknowledged or refused exactly
once; ``multiple`` covers every number up to its own that is not covered yet.
"""

from typing import NamedTuple


class Confirm(NamedTuple):
    """One frame to send: basic.ack, or basic.nack when ``is_safe`` is False."""

    number: int
    multiple: bool
    is_safe: bool


class Confirms:
    """The numbers of one channel. All up to ``_done`` have an outcome; ``_ahead`` holds later ones with an outcome."""

    __slots__ = ("_ahead", "_confirmed_to", "_done", "_early", "_failed", "_given")

    def __init__(self) -> None:
        self._given = 0
        self._done = 0
        self._confirmed_to = 0
        self._ahead: set[int] = set()
        self._early: list[int] = []
        self._failed: list[int] = []

    def next_number(self) -> int:
        """Return the number of the next publish."""
        self._given += 1
        return self._given

    @property
    def outstanding(self) -> int:
        """The number of publishes without an outcome."""
        return self._given - self._done - len(self._ahead)

    def settle(self, number: int, is_safe: bool) -> None:
        """Note the outcome of one publish."""
        if not is_safe:
            self._failed.append(number)
        if number != self._done + 1:
            self._ahead.add(number)
            if is_safe:
                self._early.append(number)
            return
        self._done = number
        while self._ahead and self._done + 1 in self._ahead:
            self._done += 1
            self._ahead.remove(self._done)

    def take(self) -> list[Confirm]:
        """Return the frames to send now: refusals first, so that ``multiple`` cannot cover them."""
        frames = [Confirm(number, False, False) for number in self._failed]
        news = self._done - self._confirmed_to
        if news > sum(self._confirmed_to < number <= self._done for number in self._failed):
            frames.append(Confirm(self._done, news > 1, True))
        self._confirmed_to = self._done
        frames.extend(Confirm(number, False, True) for number in self._early if number > self._done)
        self._early, self._failed = [], []
        return frames
