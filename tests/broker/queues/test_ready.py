"""The waiting messages of a queue, compared with a sorted list."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semq.broker.queues.message import QueueEntry
from semq.broker.queues.ready import ReadyMessages
from tests.broker.pure import message_of


class ReadyAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ready = ReadyMessages(3)
        self.waiting: list[QueueEntry] = []
        self.popped: list[QueueEntry] = []
        self.position = 0

    def expected(self) -> list[QueueEntry]:
        return sorted(self.waiting, key=lambda entry: (-min(entry.message.priority, 3), entry.position))

    def new_entry(self, priority: int) -> QueueEntry:
        self.position += 1
        return QueueEntry(message_of(b"x" * (self.position % 7), priority=priority), self.position, None)

    @rule(priority=st.integers(0, 9))
    def push(self, priority: int) -> None:
        entry = self.new_entry(priority)
        self.ready.push(entry)
        self.waiting.append(entry)

    @rule(priority=st.integers(0, 3))
    def push_late(self, priority: int) -> None:
        """Push two messages in reverse order of their positions, as when a prepared message is committed late."""
        first, second = self.new_entry(priority), self.new_entry(priority)
        self.ready.push(second)
        self.ready.push(first)
        self.waiting += [first, second]

    @precondition(lambda self: self.waiting)
    @rule()
    def pop(self) -> None:
        entry = self.ready.pop()
        assert entry is self.expected()[0]
        self.waiting.remove(entry)
        self.popped.append(entry)

    @precondition(lambda self: self.waiting)
    @rule()
    def pop_least(self) -> None:
        least = min(min(entry.message.priority, 3) for entry in self.waiting)
        oldest = next(entry for entry in self.expected() if min(entry.message.priority, 3) == least)
        assert self.ready.pop_least() is oldest
        self.waiting.remove(oldest)

    @precondition(lambda self: self.popped)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.popped))
        self.popped.remove(entry)
        self.ready.put_back(entry)
        self.waiting.append(entry)

    @rule()
    def clear(self) -> None:
        assert self.ready.clear() == (self.expected(), [])
        self.waiting = []

    @invariant()
    def agrees(self) -> None:
        assert list(self.ready) == self.expected()
        assert len(self.ready) == len(self.waiting)
        assert self.ready.bytes == sum(entry.message.size for entry in self.waiting)
        assert self.ready.head() is next(iter(self.expected()), None)


ReadyAgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestAgainstAList = ReadyAgainstAList.TestCase


def entry(position: int, expires_at: float | None, priority: int = 0) -> QueueEntry:
    return QueueEntry(message_of(priority=priority), position, expires_at)


def test_only_expired_messages_at_the_head_are_removed_and_those_behind_a_live_one_stay() -> None:
    ready = ReadyMessages(1)
    dead, living, later, high = entry(1, 5.0), entry(2, None), entry(3, 5.0), entry(4, 4.0, 1)
    for pushed in (dead, living, later, high):
        ready.push(pushed)
    assert ready.next_expiry() == 4.0
    assert ready.pop_expired(5.0, 1) == [dead]
    assert ready.pop_expired(5.0, 9) == [high]
    assert list(ready) == [living, later]
    assert ready.next_expiry() is None
