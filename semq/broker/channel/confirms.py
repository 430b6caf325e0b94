"""Publisher confirms of one channel: their numbers, and their outcomes, which arrive in any order. No I/O.

Rule (RabbitMQ): numbers start at 1 with confirm.select. Each number is acknowledged or refused exactly once. A frame
with ``multiple`` covers every number up to its own that no earlier frame covers.
"""

from typing import NamedTuple


class Confirm(NamedTuple):
    """One frame to send: basic.ack, or basic.nack when ``is_safe`` is False."""

    number: int
    multiple: bool
    is_safe: bool


class Confirms:
    """The numbers of one channel. All numbers up to ``_settled_to`` have an outcome; ``_ahead`` has the later numbers
    with an outcome.
    """

    __slots__ = ("_ahead", "_assigned", "_confirmed_to", "_early_acks", "_failed", "_sent", "_settled_to")

    def __init__(self) -> None:
        self._assigned = 0
        self._settled_to = 0
        self._confirmed_to = 0  #: all numbers up to this one have been sent
        self._ahead: set[int] = set()
        self._early_acks: list[int] = []  #: acknowledged since the last frames, before all lower numbers had an outcome
        self._failed: list[int] = []  #: refused since the last frames
        self._sent: set[int] = set()  #: numbers above ``_confirmed_to`` that were sent in a frame of their own

    def next_number(self) -> int:
        self._assigned += 1
        return self._assigned

    def settle(self, number: int, is_safe: bool) -> None:
        """Note the outcome of one publish."""
        if not is_safe:
            self._failed.append(number)
        if number != self._settled_to + 1:
            self._ahead.add(number)
            if is_safe:
                self._early_acks.append(number)
            return
        self._settled_to = number
        while self._ahead and self._settled_to + 1 in self._ahead:
            self._settled_to += 1
            self._ahead.remove(self._settled_to)

    def take_frames(self) -> list[Confirm]:
        """Return the frames to send now: refusals first, so that ``multiple`` cannot cover them.

        No number is sent in two frames, because aiormq ignores a frame with ``multiple`` whose own number has been
        confirmed already.
        """
        frames = [Confirm(number, False, False) for number in self._failed]
        self._sent.update(self._failed)
        last = self._settled_to
        while last in self._sent:
            last -= 1
        if last > self._confirmed_to:
            newly_confirmed = last - self._confirmed_to - sum(number < last for number in self._sent)
            frames.append(Confirm(last, newly_confirmed > 1, True))
        self._confirmed_to = self._settled_to
        early = [number for number in self._early_acks if number > self._settled_to]
        frames.extend(Confirm(number, False, True) for number in early)
        if self._sent:
            self._sent = {number for number in self._sent if number > self._settled_to}
        self._sent.update(early)
        self._early_acks, self._failed = [], []
        return frames
