"""Limits of unfinished work: when and why reading pauses, and when deliveries have no room."""

from semq.broker.allowance import Allowance
from semq.broker.limits import BrokerLimits

LIMITS = BrokerLimits(in_hand_bytes=100, in_hand_count=4, unacked_bytes=50, unacked_count=2, held_events=4)


class PausableLink:
    def __init__(self) -> None:
        self.reasons: set[str] = set()

    def pause_reading(self, reason: str) -> None:
        self.reasons.add(reason)

    def resume_reading(self, reason: str) -> None:
        self.reasons.discard(reason)


def test_unsettled_publishes_pause_reading_by_bytes_and_count() -> None:
    link = PausableLink()
    allowance = Allowance(LIMITS, link)
    allowance.begin_publish(100)
    assert link.reasons == set()
    allowance.begin_publish(1)
    assert link.reasons == {"in hand"}
    allowance.end_publish(40)
    assert link.reasons == {"in hand"}
    allowance.end_publish(61)
    assert link.reasons == set()
    for _ in range(5):
        allowance.begin_publish(0)
    assert link.reasons == {"in hand"}
    for _ in range(3):
        allowance.end_publish(0)
    assert link.reasons == set()


def test_waiting_events_pause_reading() -> None:
    link = PausableLink()
    allowance = Allowance(LIMITS, link)
    allowance.change_held(4)
    assert link.reasons == {"held"}
    allowance.change_held(-1)
    assert link.reasons == {"held"}
    allowance.change_held(-1)
    assert link.reasons == set()


def test_deliveries_have_room_until_unsettled_ones_reach_a_limit() -> None:
    allowance = Allowance(LIMITS, PausableLink())
    assert allowance.has_room()
    allowance.deliver(49)
    assert allowance.has_room()
    assert allowance.was_full is False
    allowance.deliver(1)
    assert not allowance.has_room()
    assert bool(allowance.was_full)
    allowance.settle(49)
    assert allowance.has_room()
    assert (allowance.unacked_count, allowance.unacked_bytes) == (1, 1)
