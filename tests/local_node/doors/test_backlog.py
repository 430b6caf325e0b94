"""The count of waiting documents: read on demand, once for all callers."""

import asyncio

from local_node.doors.backlog import COUNT_MAX, FRESH_S, Backlog
from semq.errors import Unavailable


class Rows:
    """A store with the counts ``answers``; ``asked``: maximum of each query; ``out``: number of unsettled documents."""

    def __init__(self) -> None:
        self.now = 100.0
        self.out = 2
        self.asked: list[int] = []
        self.answers: list[int | Exception] = []
        self.backlog = Backlog(self._count, lambda: self.out, lambda: self.now)

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
    rows = Rows()
    rows.answers = [12, 1]
    assert await rows.counted() == 10
    assert rows.asked == [COUNT_MAX + 2]
    rows.backlog.subtract_delivered()
    assert await rows.counted(fresh=False) == 9
    rows.now += FRESH_S
    assert await rows.counted(fresh=False) == 0  # a document was finished between the two queries
    rows.backlog.subtract_delivered()
    assert await rows.counted(fresh=False) == 0


async def test_simultaneous_questions_share_one_count() -> None:
    rows = Rows()
    rows.answers = [5]
    assert await asyncio.gather(*(rows.counted() for _ in range(10))) == [3] * 10
    assert len(rows.asked) == 1


async def test_without_a_store_the_last_count_is_reported() -> None:
    rows = Rows()
    rows.answers = [Unavailable(), 5, Unavailable(), RuntimeError("a defect"), 9]
    assert [await rows.counted() for _ in range(5)] == [0, 3, 3, 3, 7]
