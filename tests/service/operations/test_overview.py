"""Operations on large queues."""

import asyncio
import time
from functools import partial
from typing import Any

import psycopg
import pytest

from semq.service.operations import census
from semq.store.views import submissions
from semq.store.views.census import groups
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask
from tests.waiting import until


async def answer(client: Any, operation: str, **arguments: Any) -> Any:
    reply = await ask(client, operation, arguments)
    assert reply["ok"], reply
    return reply["result"]


async def test_figures_causes_and_pages_agree_and_wrong_filters_are_refused(inprocess: InProcess) -> None:
    text = LOCAL_CONFIG.format(name="10008", hub=1) + "overdue_s = 0.1\n"  # the hub is never reached, so documents wait
    node = await inprocess.start_node(inprocess.settings("10008", text))
    client = await inprocess.client(node)
    for number in range(7):
        await answer(client, "msg.submit", target=f"5600{number % 2}", app_key=f"trade/order//S{number}")
    page = await answer(client, "msg.list", partner="56000", limit=3)
    assert [row["app_key"][-2:] for row in page["rows"]] == ["S6", "S4", "S2"]
    last = await answer(client, "msg.list", partner="56000", limit=3, **page["next"])
    assert ([row["app_key"][-2:] for row in last["rows"]], last["next"]) == (["S0"], None)
    await answer(client, "msg.hold", id=page["rows"][0]["lk0"], why="test")

    async def all_are_late() -> bool:
        figures = await answer(client, "queue.census")
        return bool(figures["stuck"] == 7 == sum(pair["late"] for pair in figures["pairs"]))

    await until(all_are_late)
    figures = await answer(client, "queue.census")
    assert figures["sent"] == {"SS_INIT": 7}
    assert {pair["target"]: (pair["rows"], pair["late"]) for pair in figures["pairs"]} == {
        "1.56000": (4, 4), "1.56001": (3, 3),
    }  # fmt: skip
    causes = await answer(client, "stuck.causes")
    assert {(row["cause"], row["partner"]): row["rows"] for row in causes["rows"]} == {
        ("LINK_DOWN", "1.56000"): 3, ("LINK_DOWN", "1.56001"): 3, ("HELD", "1.56000"): 1,
    }  # fmt: skip
    held = await answer(client, "stuck.list", cause="held")
    assert [row["app_key"][-2:] for row in held["rows"]] == ["S6"]
    assert held["rows"][0]["stuck"]["next_step"].startswith("`semq msg release")
    down = await answer(client, "stuck.list", cause="LINK_DOWN", partner="56001", limit=2)
    last = await answer(client, "stuck.list", cause="LINK_DOWN", partner="56001", limit=2, **down["next"])
    assert [row["app_key"][-2:] for row in down["rows"] + last["rows"]] == ["S1", "S3", "S5"]
    for operation, arguments in (
        ("stuck.list", {"cause": "x"}),
        ("msg.list", {"colour": 1}),
        ("msg.list", {"side": "x"}),
    ):
        assert (await ask(client, operation, arguments))["error"]["code"] == "SEMQ-2102"


async def test_the_oldest_open_document_may_be_one_that_is_not_accepted_yet(inprocess: InProcess) -> None:
    text = LOCAL_CONFIG.format(name="10008", hub=1) + "quota_rows_per_partner = 1\n"
    node = await inprocess.start_node(inprocess.settings("10008", text))
    client = await inprocess.client(node)
    now_ms = round(time.time() * 1000)
    day_ms = 86_400_000

    async def oldest_at(now_ms: int) -> int | None:
        return await node.store.execute(submissions.oldest_open, now_ms)

    await answer(client, "msg.submit", target="56000", not_before=now_ms + day_ms)
    assert await oldest_at(now_ms) is None
    assert await oldest_at(now_ms + 2 * day_ms) == now_ms + day_ms
    await answer(client, "msg.submit", target="56001")
    with psycopg.connect(node.store.url, autocommit=True) as connection:
        connection.execute("SELECT semq_send('56001', 'x'::bytea)")

    async def one_waits() -> bool:
        node.clockwork.hasten("sql_submissions")
        figures = await answer(client, "queue.census")
        return bool(figures["submitted"]["waiting"] == 1 and sum(pair["rows"] for pair in figures["pairs"]) == 1)

    await until(one_waits)
    assert now_ms <= (await oldest_at(now_ms + day_ms // 2) or 0) < now_ms + day_ms // 2

    async def is_oldest() -> bool:
        oldest = (await answer(client, "queue.census"))["oldest"]
        return bool(oldest and oldest["where"] == "submitted by SQL, scheduled or in pieces")

    with psycopg.connect(node.store.url, autocommit=True) as connection:
        connection.execute("UPDATE tb_0031_submit SET submitted_at = submitted_at - interval '1 day'")
    await until(is_oldest)


async def test_failed_documents_are_paged_and_requeued_ones_are_not_shown(inprocess: InProcess) -> None:
    node = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1)))
    client = await inprocess.client(node)
    for number in range(5):
        await answer(client, "msg.submit", target="10008", app_key=f"trade/order//S{number}")
    names = [f"S{number}" for number in range(5)]

    async def is_here(name: str) -> bool:
        return bool((await answer(client, "msg.list", side="inbound", key=name))["rows"])

    for name in names:
        await until(partial(is_here, name))
        await answer(client, "failed.park", id=name, error=f"cannot read {name}")

    async def all_failed() -> bool:
        return bool((await answer(client, "failed.list"))["of"] == 5)

    await until(all_failed)
    page = await answer(client, "failed.list", limit=2)
    more = await answer(client, "failed.list", limit=10, **page["next"])
    rows = page["rows"] + more["rows"]
    assert [row["error"] for row in rows] == [f"cannot read {name}" for name in reversed(names)]
    assert [row["app_key"][-2:] for row in (await answer(client, "failed.list", key="S3"))["rows"]] == ["S3"]
    await answer(client, "failed.requeue", ids=[rows[0]["id"]], why="test")
    assert len((await answer(client, "failed.list"))["rows"]) == 4


async def test_a_census_is_shared_and_a_page_does_not_wait_for_a_slow_one(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1)))
    shared, go, counts = census.SharedCensus(node), asyncio.Event(), 0
    execute = node.store.execute

    async def slow(query: Any, *args: Any) -> Any:
        nonlocal counts
        if query is groups:
            counts += 1
            await go.wait()
        return await execute(query, *args)

    monkeypatch.setattr(node.store, "execute", slow)
    monkeypatch.setattr(census, "WAIT_S", 0.0)
    result = await asyncio.gather(*(shared.newest() for _ in range(5)))
    assert all(answer is census.EMPTY for answer in result)
    go.set()
    monkeypatch.setattr(census, "WAIT_S", 10.0)
    first = await shared.newest()
    assert first.as_of > 0
    assert counts == 1


async def test_a_count_of_now_begins_after_the_request(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1)))
    shared, go, began, counts = census.SharedCensus(node), asyncio.Event(), asyncio.Event(), 0
    execute = node.store.execute

    async def slow(query: Any, *args: Any) -> Any:
        nonlocal counts
        if query is groups:
            counts += 1
            began.set()
            await go.wait()
        return await execute(query, *args)

    monkeypatch.setattr(node.store, "execute", slow)
    monkeypatch.setattr(census, "WAIT_S", 0.0)
    assert await shared.newest() is census.EMPTY
    await began.wait()
    asked = [asyncio.ensure_future(shared.counted_now()) for _ in range(3)]
    go.set()
    first, *others = await asyncio.gather(*asked)
    assert first.as_of > 0
    assert others == [first, first]
    assert counts == 2  # one that was under way, and one for all who asked for a new one
    assert (await shared.newest()) is first
