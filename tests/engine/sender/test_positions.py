"""Sequences of submissions that wait: which later ones wait behind them, and that nothing is kept about ended ones."""

import pytest

from semq.engine.errors import WaitsBehind
from semq.engine.sender.positions import HeldSequences
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Attributes

TARGET, OTHER = parse_address("56001"), parse_address("56002")


def test_a_later_submission_waits_until_the_earlier_ones_of_its_sequence_are_released() -> None:
    held = HeldSequences()
    for number, key in ((1, "a"), (2, "a"), (3, "b"), (4, "")):
        held.hold(number, Attributes(order_key=key), TARGET)
    for number, key, target, waits in ((5, "a", TARGET, True), (5, "a", OTHER, False), (5, "", TARGET, False)):
        if waits:
            with pytest.raises(WaitsBehind):
                held.check(number, Attributes(order_key=key), target)
        else:
            held.check(number, Attributes(order_key=key), target)
    held.release(1)
    held.check(2, Attributes(order_key="a"), TARGET)
    with pytest.raises(WaitsBehind):
        held.check(5, Attributes(order_key="a"), TARGET)
    held.keep({3})
    held.check(5, Attributes(order_key="a"), TARGET)
    for number in (3, 4, 99):
        held.release(number)
    assert (held._held, held._keys) == ({}, {})
