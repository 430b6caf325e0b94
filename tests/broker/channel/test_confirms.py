"""Confirms: every number is confirmed exactly once, whatever the order of outcomes and writes."""

from hypothesis import given
from hypothesis import strategies as st

from semq.broker.channel.confirms import Confirm, Confirms

STEPS = st.lists(st.sampled_from(["publish", "safe", "unsafe", "write"]), max_size=60)


@given(STEPS, st.randoms(use_true_random=False))
def test_each_publish_is_settled_once_with_its_result(steps: list[str], chance: "st.random.Random") -> None:  # type: ignore[name-defined]
    confirms, open_numbers = Confirms(), []
    outcome: dict[int, bool] = {}
    confirmed: dict[int, bool] = {}
    published = 0

    def write() -> None:
        for number, multiple, is_safe in confirms.take_frames():
            covered = range(1, number + 1) if multiple else (number,)
            unconfirmed = [covered_number for covered_number in covered if covered_number not in confirmed]
            assert number in unconfirmed  # strict clients ignore a frame whose own number is confirmed already
            assert multiple == (len(unconfirmed) > 1)
            confirmed.update(dict.fromkeys(unconfirmed, is_safe))
        assert {number: outcome.get(number) for number in confirmed} == confirmed

    for step in [*steps, "write"]:
        if step == "publish":
            published += 1
            assert confirms.next_number() == published
            open_numbers.append(published)
        elif step == "write":
            write()
        elif open_numbers:
            number = open_numbers.pop(chance.randrange(len(open_numbers)))
            outcome[number] = step == "safe"
            confirms.settle(number, step == "safe")
    assert confirmed == outcome


def test_consecutive_numbers_are_confirmed_by_one_frame() -> None:
    confirms = Confirms()
    for _ in range(5):
        confirms.next_number()
    for number in (1, 2, 3, 5):
        confirms.settle(number, True)
    assert confirms.take_frames() == [Confirm(3, True, True), Confirm(5, False, True)]
    confirms.settle(4, True)
    assert confirms.take_frames() == [Confirm(4, False, True)]
    assert confirms.take_frames() == []


def test_a_number_that_was_settled_early_is_confirmed_once() -> None:
    confirms = Confirms()
    for _ in range(2):
        confirms.next_number()
    confirms.settle(2, True)
    confirms.settle(1, True)
    assert confirms.take_frames() == [Confirm(2, True, True)]


def test_a_refusal_precedes_the_multiple_confirm_that_would_include_it() -> None:
    confirms = Confirms()
    for _ in range(3):
        confirms.next_number()
    for number, is_safe in ((1, True), (2, False), (3, True)):
        confirms.settle(number, is_safe)
    assert confirms.take_frames() == [Confirm(2, False, False), Confirm(3, True, True)]


def test_refusals_alone_are_sent_without_an_acknowledgement() -> None:
    confirms = Confirms()
    confirms.next_number()
    confirms.settle(1, False)
    assert confirms.take_frames() == [Confirm(1, False, False)]


def test_an_early_refusal_does_not_settle_earlier_numbers() -> None:
    confirms = Confirms()
    for _ in range(3):
        confirms.next_number()
    confirms.settle(1, True)
    confirms.settle(3, False)
    assert confirms.take_frames() == [Confirm(3, False, False), Confirm(1, False, True)]
    confirms.settle(2, True)
    assert confirms.take_frames() == [Confirm(2, False, True)]
