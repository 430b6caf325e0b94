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

    __slots__ = ("_ahead", "_confirmed_to", "_done", "_early", "_failed", "_given", "_sent")

    def __init__(self) -> None:
        self._given = 0
        self._done = 0
        self._confirmed_to = 0
        self._ahead: set[int] = set()
        self._early: list[int] = []
        self._failed: list[int] = []
        self._sent: set[int] = set()  #: numbers above ``_confirmed_to`` that had a frame of their own

    def next_number(self) -> int:
        """Return the number of the next publish."""
        self._given += 1
        return self._given

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
        """Return the frames to send now: refusals first, so that ``multiple`` cannot cover them.

        The number of a frame has never been sent before, because aiormq ignores a frame with ``multiple`` whose own
        number it does not wait for.
        """
        frames = [Confirm(number, False, False) for number in self._failed]
        self._sent.update(self._failed)
        last = self._done
        while last in self._sent:
            last -= 1
        if last > self._confirmed_to:
            news = last - self._confirmed_to - sum(number < last for number in self._sent)
            frames.append(Confirm(last, news > 1, True))
        self._confirmed_to = self._done
        early = [number for number in self._early if number > self._done]
        frames.extend(Confirm(number, False, True) for number in early)
        if self._sent:
            self._sent = {number for number in self._sent if number > self._done}
        self._sent.update(early)
        self._early, self._failed = [], []
        return frames
