"""The whole story of a message: a node's own lines, and its hub's, to those whom they concern."""

from typing import Any

import psycopg
import pytest

from local_node.asking import EXCHANGE
from local_node.errors import RefusedByHub
from local_node.node import LocalNode
from local_node.requesting import VIRTUAL_HOST, request
from platform_node.node import PlatformNode
from semq.store.rows import Event
from semq.transport.errors import DialFailed
from tests.service.inprocess import InProcess, ask, linked, until


async def submitted(inprocess: InProcess, node: LocalNode, key: str, target: str = "56001") -> str:
    arguments = {"target": target, "body_base64": "eA==", "app_key": f"trade/order//{key}"}
    told = await ask(await inprocess.client(node), "msg.submit", arguments)
    return str(told["result"]["lk0"])


async def told_of(inprocess: InProcess, node: LocalNode, name: str) -> dict[str, Any]:
    told = await ask(await inprocess.client(node), "msg.trace", {"id": name, "with_hub": True})
    result: dict[str, Any] = told["result"]
    return result


async def two(inprocess: InProcess, *, secure: bool) -> tuple[PlatformNode, LocalNode, LocalNode]:
    if secure:
        hub = await inprocess.secure_platform()
        return hub, await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    hub = await inprocess.platform()
    return hub, await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)


@pytest.mark.parametrize("secure", [False, True])
async def test_sender_and_receiver_hear_what_their_hub_did(inprocess: InProcess, secure: bool) -> None:
    _, a, b = await two(inprocess, secure=secure)
    await linked(a, b)
    await submitted(inprocess, a, "S1")

    async def is_known() -> bool:
        events = (await told_of(inprocess, a, "S1"))["events"]
        return {("1.10008", "DELIVERED"), ("2.hub", "FORWARDED")} <= {(one["node"], one["event"]) for one in events}

    await until(is_known)
    for node in (a, b):
        told = await told_of(inprocess, node, "S1")
        assert told["unheard"] is None
        assert {one["node"] for one in told["events"]} == {str(node.address), "2.hub"}
        assert [one["at"] for one in told["events"]] == sorted(one["at"] for one in told["events"])
    alone = (await ask(await inprocess.client(a), "msg.trace", {"id": "S1"}))["result"]
    assert "unheard" not in alone
    assert all("node" not in one for one in alone["events"])


async def test_nobody_else_learns_of_a_message(inprocess: InProcess) -> None:
    hub, a, _ = await two(inprocess, secure=False)
    other = await inprocess.local("88001", hub.port)
    await linked(a, other)
    lk0 = await submitted(inprocess, a, "S1")
    await until(lambda: hub.engine.core.counters.counts.get("forwarded"))
    way = other.uplink.way_to(VIRTUAL_HOST)
    heard = await request(way, other.clock, EXCHANGE, "trace", {"lk0": lk0})
    assert heard == {"node": "2.hub", "events": []}
    with psycopg.connect(str(hub.settings.database.dsn), autocommit=True) as connection:
        connection.execute(  # what an impostor has said of itself
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail) VALUES (1, now(), 2, %s, %s, '1.88001', 0, '',"
            " 'd', 't', '', 'k', '', 1, '')",
            [Event.VIOLATION.value, lk0],
        )
    assert (await request(way, other.clock, EXCHANGE, "trace", {"lk0": lk0}))["events"] == []
    own = a.uplink.way_to(VIRTUAL_HOST)
    assert (await request(own, a.clock, EXCHANGE, "trace", {"lk0": lk0}))["events"]
    for arguments in ({}, {"lk0": "nonsense"}, {"lk0": 7}):
        with pytest.raises(RefusedByHub):
            await request(own, a.clock, EXCHANGE, "trace", arguments)
    with pytest.raises(RefusedByHub):
        await request(own, a.clock, "semq.none", "trace", {"lk0": lk0})


async def test_a_hub_that_is_away_is_named(inprocess: InProcess) -> None:
    hub, a, b = await two(inprocess, secure=False)
    await linked(a, b)
    await submitted(inprocess, a, "S1")
    await hub.stop()
    told = await told_of(inprocess, a, "S1")
    assert next(one["event"] for one in told["events"]) == "ACCEPTED"
    assert DialFailed.code in told["unheard"]
