"""Publisher confirms of one channel: numbers given out, outcomes coming back in any order, few frames going out. Pure.

Used by ``channel``. Rule (RabbitMQ): numbers start at 1 with confirm.select; each is acknowledged or refused exactly
once; ``multiple`` speaks for everything up to the number that has not been spoken for.
"""

from typing import NamedTuple


class Confirm(NamedTuple):
    """One frame to send: basic.ack, or basic.nack when ``is_safe`` is False."""

    number: int
    multiple: bool
    is_safe: bool


class Confirms:
    """Everything up to ``_done`` has an outcome; ``_ahead`` holds outcomes that came before their turn."""

    __slots__ = ("_ahead", "_done", "_early", "_failed", "_given", "_told")

    def __init__(self) -> None:
        self._given = 0
        self._done = 0
        self._told = 0
        self._ahead: set[int] = set()
        self._early: list[int] = []
        self._failed: list[int] = []

    def next_number(self) -> int:
        """The number of one more publish."""
        self._given += 1
        return self._given

    @property
    def outstanding(self) -> int:
        """Publishes without an outcome."""
        return self._given - self._done - len(self._ahead)

    def settle(self, number: int, is_safe: bool) -> None:
        """One publish has its outcome."""
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
        """What is to be sent now: refusals first, so that ``multiple`` cannot speak for them."""
        frames = [Confirm(number, False, False) for number in self._failed]
        news = self._done - self._told
        if news > sum(self._told < number <= self._done for number in self._failed):
            frames.append(Confirm(self._done, news > 1, True))
        self._told = self._done
        frames.extend(Confirm(number, False, True) for number in self._early if number > self._done)
        self._early, self._failed = [], []
        return frames
