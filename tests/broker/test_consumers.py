"""Whose turn it is: priorities, rounds, and those who have no room cost nothing."""

from hypothesis import given
from hypothesis import strategies as st

from semq.broker.consumers import ConsumerRing
from semq.broker.ready import Entry
from tests.broker.pure import Notes, message_of


class Looked(Notes):
    """Counts how often it is asked."""

    asked = 0

    def can_take(self) -> bool:
        self.asked += 1
        return super().can_take()


def test_those_without_room_are_asked_once_until_they_wake() -> None:
    ring = ConsumerRing()
    full = [Looked(0) for _ in range(100)]
    for consumer in full:
        ring.add(consumer)
    for _ in range(10):
        assert ring.next() is None
    assert [consumer.asked for consumer in full] == [1] * 100
    full[3].room = 1
    ring.wake(full[3])
    ring.wake(full[3])
    assert ring.next() is full[3]


def test_whoever_leaves_has_no_turn_and_leaves_no_trace() -> None:
    ring = ConsumerRing()
    stays = Notes()
    ring.add(stays)
    for _ in range(1000):
        goes = Notes()
        ring.add(goes)
        ring.remove(goes)
        ring.wake(goes)
    assert [ring.next() for _ in range(3)] == [stays] * 3
    assert len(ring) == 1
    assert sum(len(lane) for _, lane in ring._lanes) < 20


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), max_size=8), st.integers(0, 12))
def test_higher_priorities_are_exhausted_before_lower_ones_are_asked(
    consumers: list[tuple[int, int]], messages: int
) -> None:
    ring = ConsumerRing()
    for priority, room in consumers:
        ring.add(Notes(room, priority=priority))
    served: list[int] = []
    for _ in range(messages):
        consumer = ring.next()
        if consumer is None:
            break
        consumer.take(None, Entry(message_of(), 1, None))
        served.append(consumer.priority)
    possible = sorted((priority for priority, room in consumers for _ in range(room)), reverse=True)
    assert served == possible[:messages]


def test_the_active_one_is_the_oldest_of_the_highest_priority() -> None:
    ring = ConsumerRing(single_active=True)
    first, second, high = Notes(0), Notes(), Notes(priority=1)
    for consumer in (first, second, high):
        ring.add(consumer)
    assert ring.next() is None  # the first is active, and full
    ring.remove(first)
    assert ring.next() is high
    ring.remove(second)
    ring.remove(high)
    assert ring.next() is None
    assert ring.active() is None
    ring.add(second)
    assert (ring.next(), ring.active()) == (second, second)
