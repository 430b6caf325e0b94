"""The turns of consumers by priority."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from semq.broker.queues.consumers import ConsumerRing
from semq.broker.queues.message import QueueEntry
from tests.broker.pure import RecordingConsumer, message_of


class CountingConsumer(RecordingConsumer):
    """A consumer that counts the calls of ``has_room``."""

    questions = 0

    def has_room(self) -> bool:
        self.questions += 1
        return super().has_room()


def test_consumers_without_room_are_asked_only_once() -> None:
    ring = ConsumerRing()
    full = [CountingConsumer(0) for _ in range(100)]
    for consumer in full:
        ring.add(consumer)
    for _ in range(10):
        assert ring.next() is None
    assert [consumer.questions for consumer in full] == [1] * 100
    full[3].room = 1
    ring.resume(full[3])
    ring.resume(full[3])
    assert ring.next() is full[3]


def test_consumers_of_one_priority_take_turns() -> None:
    ring = ConsumerRing()
    first, second = RecordingConsumer(), RecordingConsumer()
    ring.add(first)
    ring.add(second)
    assert [ring.next() for _ in range(4)] == [first, second, first, second]


def test_a_removed_consumer_has_no_turn_and_no_state() -> None:
    ring = ConsumerRing()
    staying = RecordingConsumer()
    ring.add(staying)
    for _ in range(1000):
        leaving = RecordingConsumer()
        ring.add(leaving)
        ring.remove(leaving)
        ring.resume(leaving)
    assert [ring.next() for _ in range(3)] == [staying] * 3
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
        consumer.deliver_entry(QueueEntry(message_of(), 1, None))
        served.append(consumer.priority)
    possible = sorted((priority for priority, room in consumers for _ in range(room)), reverse=True)
    assert served == possible[:messages]


def test_the_active_consumer_is_the_oldest_of_the_highest_priority() -> None:
    ring = ConsumerRing(single_active=True)
    first, second, high = RecordingConsumer(0), RecordingConsumer(), RecordingConsumer(priority=1)
    for consumer in (first, second, high):
        ring.add(consumer)
    assert ring.next() is None  # the first is active and has no room
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
    staying = RecordingConsumer(priority=2000)
    ring.add(staying)
    for priority in range(1000):
        leaving = RecordingConsumer(priority=priority)
        ring.add(leaving)
        assert ring.next() is staying
        ring.remove(leaving)
    assert sum(len(lane) for lane in ring._lanes.values()) < 20
    assert sorted(ring._lanes) == ring._priorities


class ConsumersComeAndGo(RuleBasedStateMachine):
    """A ring compared with a list that is searched on every request."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = ConsumerRing()
        self.members: list[RecordingConsumer] = []
        self.active: RecordingConsumer | None = None

    @initialize(is_single=st.booleans())
    def make(self, is_single: bool) -> None:
        self.ring, self.is_single = ConsumerRing(is_single), is_single

    @rule(room=st.integers(0, 2), priority=st.integers(-1, 1))
    def add(self, room: int, priority: int) -> None:
        self.members.append(RecordingConsumer(room, priority=priority))
        self.ring.add(self.members[-1])
        self.choose_active()

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.members:
            removed = data.draw(st.sampled_from(self.members))
            self.members.remove(removed)
            self.ring.remove(removed)
            self.active = None if self.active is removed else self.active
            self.choose_active()

    @rule(data=st.data())
    def give_room(self, data: st.DataObject) -> None:
        if self.members:
            consumer = data.draw(st.sampled_from(self.members))
            consumer.room += 1
            self.ring.resume(consumer)

    @rule()
    def serve(self) -> None:
        consumer = self.ring.next()
        served = [self.active] if self.is_single else self.members
        candidates = [candidate for candidate in served if candidate is not None and candidate.room]
        if not candidates:
            assert consumer is None
            return
        assert isinstance(consumer, RecordingConsumer)
        assert consumer in candidates
        assert consumer.priority == max(candidate.priority for candidate in candidates)
        consumer.deliver_entry(QueueEntry(message_of(), 1, None))

    def choose_active(self) -> None:
        if self.is_single and self.active is None and self.members:
            self.active = max(self.members, key=lambda candidate: candidate.priority)  # of equal priorities, the oldest

    @invariant()
    def the_active_consumer_agrees(self) -> None:
        assert self.ring.active is self.active
        assert list(self.ring.members) == self.members


TestConsumersComeAndGo = ConsumersComeAndGo.TestCase
