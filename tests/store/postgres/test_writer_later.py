"""Work without a waiting caller is committed with other work, or alone after a pause."""

import asyncio
from functools import partial

import pytest

from semq.errors import BadInput
from semq.store.postgres import writer
from semq.store.postgres.store import PostgresStore
from tests.store.postgres.notified_store import accepting, open_notified_store, raising


def commits(store: PostgresStore) -> int:
    return store.counters.units - store.counters.read_only


async def test_work_without_a_waiting_caller_shares_the_next_commit(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        before, order = commits(notified.store), list[int]()
        patient = [accepting(number, partial(order.append, number)) for number in range(2, 6)]
        for job in patient:
            notified.store.post(job, later=True)
        await asyncio.sleep(0)
        assert not any(job.decided for job in patient)
        await notified.do(accepting(6, partial(order.append, 6)))
        assert order == [2, 3, 4, 5, 6]
        assert all(job.results == [None] for job in patient)
        assert commits(notified.store) == before + 1


async def test_work_without_a_waiting_caller_is_committed_after_a_pause(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LATER_S", 0.01)
    async with open_notified_store(database) as notified:
        for number in (1, 2):
            job = accepting(number)
            notified.store.post(job, later=True)
            async with asyncio.timeout(60):
                await job.over.wait()
            assert job.results == [None]


async def test_a_full_unit_is_begun_without_waiting(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    monkeypatch.setattr(writer, "WORKS_MAX", 3)
    async with open_notified_store(database) as notified:
        jobs = [accepting(number) for number in (1, 2, 3)]
        for job in jobs:
            notified.store.post(job, later=True)
        async with asyncio.timeout(60):
            for job in jobs:
                await job.over.wait()


async def test_waiting_work_is_committed_when_the_store_is_closed(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    job = accepting(1)
    async with open_notified_store(database) as notified:
        notified.store.post(job, later=True)
    assert job.results == [None]


async def test_waiting_work_is_committed_with_a_renewal_of_the_lease(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    monkeypatch.setattr(writer, "RENEW_S", 0.05)
    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        job = accepting(2)
        notified.store.post(job, later=True)
        async with asyncio.timeout(60):
            await job.over.wait()
        assert job.results == [None]


async def test_work_returned_to_the_queue_leaves_no_timer(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer would make ``later`` work due too early."""
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    async with open_notified_store(database) as notified:
        current_writer, patient = notified.store._writer, accepting(4)
        assert current_writer is not None
        first = accepting(1, lambda: notified.store.post(patient, later=True))
        error = BadInput("no")
        assert await notified.do(first, raising(error), accepting(3)) == [None, error, None]
        await patient.over.wait()
        assert (current_writer._later, current_writer._is_due) == (None, False)


async def test_a_timer_on_an_empty_queue_keeps_no_work_waiting(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    async with open_notified_store(database) as notified:
        current_writer = notified.store._writer
        assert current_writer is not None
        current_writer._make_due()
        assert not current_writer._is_due
        notified.store.post(accepting(1), later=True)
        assert current_writer._later is not None
