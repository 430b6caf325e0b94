"""Nacks of one user and target are sent in rounds, each after a longer delay."""

from itertools import pairwise

from local_node.doors.nacks import FIRST_S, FORGET_S, LONGEST_S, NackDelays
from semq.broker.timers import Timers
from semq.umx_t.address import parse_address

NODE, OTHER = parse_address("56001"), parse_address("56002")


class HastyPublisher:
    """A publisher that repeats a document as soon as it is nacked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers = Timers()
        self.delays = NackDelays(self.timers, lambda: self.now)
        self.nacked_at: list[float] = []

    def refuse(self) -> None:
        self.delays.delay("erp", NODE, lambda: self.nacked_at.append(self.now))

    def repeat_until(self, end: float) -> int:
        """Return the number of attempts before ``end``."""
        attempts = 0
        while self.now < end:
            attempts += 1
            self.refuse()
            self.pass_to_next()
        return attempts

    def pass_to_next(self) -> None:
        deadline = self.timers.earliest()
        assert deadline is not None
        self.now = deadline
        self.timers.run(self.now)


def test_a_publisher_that_repeats_at_once_is_slowed_down() -> None:
    publisher = HastyPublisher()
    assert publisher.repeat_until(10.0) <= 10
    waits = [after - before for before, after in zip([0.0, *publisher.nacked_at], publisher.nacked_at, strict=False)]
    assert waits[0] == FIRST_S
    assert all(after >= before for before, after in pairwise(waits))
    assert publisher.repeat_until(60.0) <= 60 / LONGEST_S + 1


def test_the_nacks_of_one_round_are_sent_together() -> None:
    publisher = HastyPublisher()
    for _ in range(100):
        publisher.refuse()
    publisher.pass_to_next()
    assert publisher.nacked_at == [FIRST_S] * 100


def test_an_accepted_document_or_a_long_pause_starts_again() -> None:
    for starts_again in (
        lambda each: each.delays.note_accepted("erp", NODE),
        lambda each: setattr(each, "now", each.now + FORGET_S + 1),
    ):
        publisher = HastyPublisher()
        publisher.repeat_until(5.0)
        starts_again(publisher)
        began = publisher.now
        publisher.refuse()
        publisher.pass_to_next()
        assert round(publisher.nacked_at[-1] - began, 6) == FIRST_S


def test_another_target_is_not_delayed_by_the_first() -> None:
    publisher = HastyPublisher()
    publisher.repeat_until(5.0)
    began, nacked = publisher.now, []
    publisher.delays.delay("erp", OTHER, lambda: nacked.append(publisher.now))
    while not nacked:
        publisher.pass_to_next()
    assert round(nacked[0] - began, 6) == FIRST_S
