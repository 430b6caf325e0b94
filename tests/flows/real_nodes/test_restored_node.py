"""A node whose database was put back learns it from those who have seen a later start, and says so."""

import re
from functools import partial
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from local_node.node import LocalNode
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.store.rows import Event
from semq.umx_t.short_name import short_name
from tests.local_node.link.test_direct import ledger_details
from tests.local_node.operations.test_trace import submit
from tests.service.inprocess import HUB_CONFIG, InProcess, ask, linked
from tests.waiting import until

HUB_OF_BOTH = HUB_CONFIG.replace('"pass-56001"\n', '"pass-56001"\nmay_send_to = ["10008"]\n')


def copy_of(url: str) -> str:
    """Copy a database on the same server; return the address of the copy."""
    name = url.rpartition("/")[2].partition("?")[0]
    with psycopg.connect(re.sub(f"/{name}", "/postgres", url), autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}_backup"')
        connection.execute(f'CREATE DATABASE "{name}_backup" TEMPLATE "{name}"')
    return url.replace(f"/{name}", f"/{name}_backup")


async def start(inprocess: InProcess, settings: Settings) -> LocalNode:
    node = LocalNode(settings, SystemClock())
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    await linked(node)
    return node


def has_compared(node: LocalNode) -> bool:
    """Whether a node has compared its ledger with what the hub has seen."""
    record = node.clockwork.records["missing"]
    return bool(record.runs) and not record.running and not node.missing.seen


async def found(inprocess: InProcess, node: LocalNode) -> tuple[int, dict[str, Any]]:
    answer = (await ask(await inprocess.client(node), "node.health"))["result"]
    [check] = [check for check in answer["checks"] if check["check"] == "store"]
    return node.store.counters.went_back, check


@pytest.mark.parametrize(
    ("starts", "hub_restarts"),
    [(1, False), (2, False), (2, True)],  # a hub that was restarted knows the number of the start only
)
async def test_a_node_whose_database_was_put_back_says_so(
    inprocess: InProcess, starts: int, hub_restarts: bool
) -> None:
    hub, node = await inprocess.pair()
    settings = node.settings
    await linked(node)
    await node.stop()
    backup = SecretStr(copy_of(settings.database.dsn or ""))
    for _ in range(starts):
        node = await start(inprocess, settings)
        assert await found(inprocess, node) == (0, {"check": "store", "verdict": "ok", "detail": ""})
        await node.stop()
    if hub_restarts:
        await until(lambda: not hub.registry._unwritten)
        hub.parts.links.statements.clear()
        hub.parts.links.starts_seen.clear()
    settings = settings.model_copy(update={"database": settings.database.model_copy(update={"url": backup})})
    node = await start(inprocess, settings)
    await until(lambda: node.store.counters.went_back == 1)
    count, check = await found(inprocess, node)
    assert (count, check["verdict"]) == (1, "warning")
    assert f"has seen start {node.engine._boot + starts - 1} of this store" in check["detail"]
    assert str(hub.address) in check["detail"]
    status = (await ask(await inprocess.client(node), "node.status"))["result"]
    assert status["missing_commits"] in check["detail"]
    await node.stop()
    after = await start(inprocess, settings)
    assert (await found(inprocess, after))[0] == 0


@pytest.mark.parametrize(("source", "target"), [("10008", "56001"), ("56001", "10008")])
async def test_a_backup_of_the_running_process_is_recognised_by_a_document(
    inprocess: InProcess, source: str, target: str
) -> None:
    hub = await inprocess.hub(HUB_OF_BOTH)
    nodes = {name: await inprocess.local(name, hub.port) for name in ("10008", "56001")}
    settings = nodes["56001"].settings
    await linked(*nodes.values())
    await nodes["56001"].stop()
    # The backup has the number of the start under which the documents are exchanged, as if it was made meanwhile.
    backup = SecretStr(copy_of(settings.database.dsn or ""))
    with psycopg.connect(settings.database.dsn or "") as connection:
        connection.execute("UPDATE semq_meta SET boot = boot - 1")
    hub.parts.links.statements.clear()
    node = nodes["56001"] = await start(inprocess, settings)
    lk0 = await submit(inprocess, nodes[source], "K1", target)
    await until(lambda: len(ledger_details(nodes[source], Event.DELIVERED)) == 1)
    await node.stop()
    database = settings.database.model_copy(update={"url": backup})
    node = await start(inprocess, settings.model_copy(update={"database": database}))
    await until(lambda: node.store.counters.went_back == 1)
    _, check = await found(inprocess, node)
    assert f"{hub.address} has seen {short_name(lk0)}" in check["detail"]
    await until(lambda: (survey := node.missing.survey) is not None and survey.count == 1)


async def test_a_restart_after_documents_of_both_directions_is_no_restore(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB_OF_BOTH)
    nodes = {name: await inprocess.local(name, hub.port) for name in ("10008", "56001")}
    await linked(*nodes.values())
    for name, target in (("10008", "56001"), ("56001", "10008")):
        source = nodes[name]
        await submit(inprocess, source, "K1", target)
        await until(partial(ledger_details, source, Event.DELIVERED))
        await nodes["56001"].stop()
        node = nodes["56001"] = await start(inprocess, nodes["56001"].settings)
        await until(lambda: has_compared(nodes["56001"]))
        assert (await found(inprocess, node))[0] == 0
