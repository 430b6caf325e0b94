"""A node whose database was put back learns it from those who have seen a later start, and says so."""

import re
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from local_node.node import LocalNode
from semq.clock import SystemClock
from semq.config.settings import Settings
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until


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
    hub = await inprocess.hub()
    node = await inprocess.local("10008", hub.port)
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
        hub.links.statements.clear()
        hub.links.starts_seen.clear()
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
