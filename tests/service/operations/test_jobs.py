"""Operations on scheduled jobs."""

import asyncio
from typing import Any

import pytest

from local_node.node import LocalNode
from semq.service import housekeeping
from semq.service.operations.jobs import DESCRIPTIONS
from tests.service.inprocess import HUB_CONFIG, InProcess, ask
from tests.waiting import until


async def job(client: Any, name: str) -> dict[str, Any]:
    rows = (await ask(client, "job.list"))["result"]
    row: dict[str, Any] = next(row for row in rows if row["name"] == name)
    return row


async def test_every_job_has_a_description_and_a_next_time(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB_CONFIG)
    node = await inprocess.local("10008", hub.port)
    for each in (hub, node):
        for row in (await ask(await inprocess.client(each), "job.list"))["result"]:
            assert row["does"] == DESCRIPTIONS[row["name"]]
            assert row["next_at"]
            assert row["paused_at"] is None


async def test_a_job_runs_now_although_it_is_due_later_and_not_while_it_is_paused(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: asyncio.Queue[str] = asyncio.Queue()

    async def tidy(*_: Any) -> dict[str, int]:
        ran.put_nowait("tidied")
        return {}

    monkeypatch.setattr(housekeeping, "tidy", tidy)
    node: LocalNode = await inprocess.local("10008", 1)
    client = await inprocess.client(node)
    assert (await job(client, "housekeeping"))["runs"] == 0
    assert (await ask(client, "job.run", {"name": "housekeeping"}))["ok"]
    await asyncio.wait_for(ran.get(), 20)
    await until(lambda: node.clockwork.records["housekeeping"].took_s > 0)
    without_reason = await ask(client, "job.pause", {"name": "housekeeping"})
    assert without_reason["error"]["code"] == "SEMQ-2102"
    assert (await ask(client, "job.pause", {"name": "housekeeping", "why": "a backup runs"}))["ok"]
    paused = await job(client, "housekeeping")
    assert (paused["paused_why"], paused["next_at"], paused["runs"]) == ("a backup runs", None, 1)
    assert not (await ask(client, "job.run", {"name": "housekeeping"}))["ok"]
    node.clockwork.hasten("housekeeping")
    assert (await ask(client, "job.resume", {"name": "housekeeping"}))["ok"]
    assert (await ask(client, "job.run", {"name": "housekeeping"}))["ok"]
    await asyncio.wait_for(ran.get(), 20)
    assert ran.empty()


@pytest.mark.parametrize("name", ["engine", "certificate", "no such job"])
async def test_jobs_that_the_node_needs_and_unknown_jobs_are_not_paused(inprocess: InProcess, name: str) -> None:
    client = await inprocess.client(await inprocess.local("10008", 1))
    assert (await ask(client, "job.pause", {"name": name, "why": "x"}))["error"]["code"] == "SEMQ-2102"
