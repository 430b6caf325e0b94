"""The turns of consumers: priorities, rounds, and no cost for consumers without room."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from semq.broker.queues.consumers import ConsumerRing
from semq.broker.queues.message import QueueEntry
from tests.broker.pure import RecordingConsumer, message_of


class CountingConsumer(RecordingConsumer):
    """A consumer that counts the calls of ``can_take``."""

    asked = 0

    def can_take(self) -> bool:
        self.asked += 1
        return super().can_take()


def test_consumers_without_room_are_asked_once_until_they_have_room() -> None:
    ring = ConsumerRing()
    full = [CountingConsumer(0) for _ in range(100)]
    for consumer in full:
        ring.add(consumer)
    for _ in range(10):
        assert ring.next() is None
    assert [consumer.asked for consumer in full] == [1] * 100
    full[3].room = 1
    ring.resume(full[3])
    ring.resume(full[3])
    assert ring.next() is full[3]


def test_a_removed_consumer_has_no_turn_and_no_state() -> None:
    ring = ConsumerRing()
    stays = RecordingConsumer()
    ring.add(stays)
    for _ in range(1000):
        goes = RecordingConsumer()
        ring.add(goes)
        ring.remove(goes)
        ring.resume(goes)
    assert [ring.next() for _ in range(3)] == [stays] * 3
    assert len(ring) == 1
    assert sum(len(lane) for lane in ring._lanes.values()) < 20


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), max_size=8), st.integers(0, 12))
def test_higher_priorities_are_exhausted_before_lower_ones_are_asked(
    consumers: list[tuple[int, int]], messages: int
) -> None:
    ring = ConsumerRing()
    for priority, room in consumers:
        ring.add(RecordingConsumer(room, priority=priority))
    served: list[int] = []
    for _ in range(messages):
        consumer = ring.next()
        if consumer is None:
            break
        consumer.take(None, QueueEntry(message_of(), 1, None))
        served.append(consumer.priority)
    possible = sorted((priority for priority, room in consumers for _ in range(room)), reverse=True)
    assert served == possible[:messages]


def test_the_active_consumer_is_the_oldest_of_the_highest_priority() -> None:
    ring = ConsumerRing(single_active=True)
    first, second, high = RecordingConsumer(0), RecordingConsumer(), RecordingConsumer(priority=1)
    for consumer in (first, second, high):
        ring.add(consumer)
    assert ring.next() is None  # the first is active, and full
    ring.remove(first)
    assert ring.next() is high
    ring.remove(second)
    ring.remove(high)
    assert ring.next() is None
    assert ring.active is None
    ring.add(second)
    assert ring.next() is second
    assert ring.active is second


def test_an_unused_priority_is_removed() -> None:
    ring = ConsumerRing()
    stays = RecordingConsumer(priority=2000)
    ring.add(stays)
    for priority in range(1000):
        goes = RecordingConsumer(priority=priority)
        ring.add(goes)
        assert ring.next() is stays
        ring.remove(goes)
    assert sum(len(lane) for lane in ring._lanes.values()) < 20
    assert sorted(ring._lanes) == ring._priorities


class ConsumersComeAndGo(RuleBasedStateMachine):
    """A ring compared with a list that is searched on every request."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = ConsumerRing()
        self.there: list[RecordingConsumer] = []
        self.active: RecordingConsumer | None = None

    @initialize(is_single=st.booleans())
    def make(self, is_single: bool) -> None:
        self.ring, self.is_single = ConsumerRing(is_single), is_single

    @rule(room=st.integers(0, 2), priority=st.integers(-1, 1))
    def come(self, room: int, priority: int) -> None:
        self.there.append(RecordingConsumer(room, priority=priority))
        self.ring.add(self.there[-1])
        self.choose()

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        if self.there:
            gone = data.draw(st.sampled_from(self.there))
            self.there.remove(gone)
            self.ring.remove(gone)
            self.active = None if self.active is gone else self.active
            self.choose()

    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        if self.there:
            woken = data.draw(st.sampled_from(self.there))
            woken.room += 1
            self.ring.resume(woken)

    @rule()
    def serve(self) -> None:
        found = self.ring.next()
        served = [self.active] if self.is_single else self.there
        able = [one for one in served if one is not None and one.room]
        if not able:
            assert found is None
            return
        assert isinstance(found, RecordingConsumer)
        assert found in able
        assert found.priority == max(one.priority for one in able)
        found.take(None, QueueEntry(message_of(), 1, None))  # type: ignore[arg-type]

    def choose(self) -> None:
        if self.is_single and self.active is None and self.there:
            self.active = max(self.there, key=lambda one: one.priority)  # the first of equals is the oldest

    @invariant()
    def the_active_one_is_known(self) -> None:
        assert self.ring.active is self.active
        assert list(self.ring.members) == self.there


TestConsumersComeAndGo = ConsumersComeAndGo.TestCase
