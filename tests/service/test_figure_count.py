"""The counting job of a node."""

import asyncio
from typing import Any, cast

import pytest

from semq.service import figure_count
from semq.service.figure_count import FigureCount
from semq.store.figures import LINES_MAX, count_lines


class CommittingStore:
    """A store with counters of commits."""

    def __init__(self, *answers: int) -> None:
        self.units, self.read_only = 5, 2
        self.counters = self
        self.answers = list(answers)

    async def execute(self, query: Any) -> int:
        assert query is count_lines
        return self.answers.pop(0)


async def test_without_a_commit_since_the_last_count_the_database_is_not_asked() -> None:
    store: Any = CommittingStore(LINES_MAX, 7, 3)
    count = FigureCount(store, 1.0)
    await count.count()
    assert store.answers == [3]
    assert await count.count_soon()
    store.units, store.read_only = 6, 3  # a unit without changes
    await count.count()
    assert store.answers == [3]
    store.units = 7
    await count.count_soon()
    assert store.answers == []


async def test_a_failed_count_is_repeated() -> None:
    store: Any = CommittingStore()
    count = FigureCount(store, 1.0)
    with pytest.raises(IndexError):
        await count.count()
    store.answers = [1]
    await count.count()
    assert store.answers == []


async def test_a_reader_does_not_wait_for_a_long_count_and_learns_that_it_is_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, go = CommittingStore(), asyncio.Event()

    async def wait(query: Any) -> int:
        await go.wait()
        return 1

    monkeypatch.setattr(store, "execute", wait)
    monkeypatch.setattr(figure_count, "WAIT_S", 0.0)
    count = FigureCount(cast(Any, store), 1.0)
    assert not await count.count_soon()
    go.set()
    await count.count()
    monkeypatch.setattr(figure_count, "WAIT_S", 10.0)
    assert await count.count_soon()
