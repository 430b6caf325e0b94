"""The count of waiting documents: read on demand, once for all callers."""

import asyncio

from local_node.doors.inbox import COUNT_MAX, FRESH_S, Backlog
from semq.errors import Unavailable


class CountedInbox:
    """A store with the counts ``answers``. ``asked``: the maximum that each query states.

    ``unacknowledged``: number of documents given to applications and not acknowledged.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.unacknowledged = 2
        self.asked: list[int] = []
        self.answers: list[int | Exception] = []
        self.backlog = Backlog(self._count, lambda: self.unacknowledged, lambda: self.now)

    async def _count(self, at_most: int) -> int:
        self.asked.append(at_most)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def counted(self, *, fresh: bool = True) -> int:
        """Return the reported number, with ``fresh`` from a new count."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        (self.backlog.count_and_report if fresh else self.backlog.report)(answer.set_result)
        return await answer


async def test_documents_given_to_applications_are_not_counted_as_waiting() -> None:
    inbox = CountedInbox()
    inbox.answers = [12, 1]
    assert await inbox.counted() == 10
    assert inbox.asked == [COUNT_MAX + 2]
    inbox.backlog.subtract_delivered()
    assert await inbox.counted(fresh=False) == 9
    inbox.now += FRESH_S
    assert await inbox.counted(fresh=False) == 0  # one was acknowledged after the count: 1 row, 2 given out
    inbox.backlog.subtract_delivered()
    assert await inbox.counted(fresh=False) == 0


async def test_simultaneous_questions_share_one_count() -> None:
    inbox = CountedInbox()
    inbox.answers = [5]
    assert await asyncio.gather(*(inbox.counted() for _ in range(10))) == [3] * 10
    assert len(inbox.asked) == 1


async def test_without_a_store_the_last_count_is_reported() -> None:
    inbox = CountedInbox()
    inbox.answers = [Unavailable(), 5, Unavailable(), RuntimeError("a defect"), 9]
    assert [await inbox.counted() for _ in range(5)] == [0, 3, 3, 3, 7]
