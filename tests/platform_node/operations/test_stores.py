"""An operator retires a lost store on the command line."""

from functools import partial
from typing import Any

from platform_node.node import HubNode
from semq.clock import SystemClock
from semq.config import load
from semq.transport.client import ClientLink
from tests.cli.command import CommandResult, semq_aside
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until


async def semq_at(node: Any, *words: str) -> CommandResult:
    return await semq_aside(*words, "--node", f"amqp://guest:guest@127.0.0.1:{node.port}")


async def row_of(app: ClientLink, lk0: str) -> Any:
    return (await ask(app, "msg.show", {"id": lk0}))["result"]


async def is_in_custody(app: ClientLink, lk0: str) -> bool:
    return bool((await row_of(app, lk0))["ss_status"] == "SS_ACK")


async def has_ended_lost(app: ClientLink, lk0: str) -> bool:
    """Inquire about the document; return whether it has ended LOST."""
    await ask(app, "msg.inquire", {"id": lk0})
    answer = await ask(app, "msg.trace", {"id": lk0})
    return any(line["event"] == "LOST" for line in answer["result"]["events"])


async def is_reported_as_away(node: Any, lk0: str) -> bool:
    return "CUSTODIAN_AWAY" in (await semq_at(node, "stuck", "explain", lk0)).out


async def was_asked_for_lost_store(hub: HubNode) -> bool:
    return (1, 1) in hub.engine.custody.stores.missed


async def test_a_lost_store_is_retired_by_an_operator(inprocess: InProcess) -> None:
    first = await inprocess.hub(HUB_CONFIG)
    port = first.port
    settings = inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=port) + "overdue_s = 1\n")
    node = await inprocess.start_node(settings)
    await linked(node)
    app = await inprocess.client(node)
    arguments = {"target": "56001", "body_base64": "eA==", "ack2": 0}
    lk0 = str((await ask(app, "msg.submit", arguments))["result"]["lk0"])
    await until(partial(is_in_custody, app, lk0))
    await first.stop()

    text = HUB_CONFIG.replace("[amqp]\nport = 0", f"semq_db_id = 2\n[amqp]\nport = {port}")
    hub = await inprocess.hub(text)
    await until(partial(was_asked_for_lost_store, hub))
    await until(partial(is_reported_as_away, node, lk0))
    explained = await semq_at(node, "stuck", "explain", lk0)
    assert "semq hub stores list" in explained.out
    listed = await semq_at(hub, "hub", "stores", "list")
    assert "1.2" in listed.out
    assert "not here" in listed.out

    for wrong in ("1", "1.x", "0.1", "1.2.3", "1.99999999999"):
        (await semq_at(hub, "hub", "stores", "retire", wrong, "--why", "w")).fails(1, "SEMQ-2102")
    (await semq_at(hub, "hub", "stores", "retire", "1.1", "--why", " ")).fails(1, "SEMQ-2102")
    (await semq_at(hub, "hub", "stores", "retire", "1.2", "--why", "w")).fails(1, "SEMQ-1215")
    result = await semq_at(hub, "hub", "stores", "retire", "1.1", "--why", "disk lost on 3 March")
    assert result.out == "1.1  is retired: nodes are informed at their next inquiry, within an hour\n"
    repeated = await semq_at(hub, "hub", "stores", "retire", "1.1", "--why", "disk lost", "--json")
    assert repeated.data == {"store": "1.1", "was_retired": True}
    await hub.stop()

    hub = HubNode(load(inprocess.folder / "hub.toml", {}), SystemClock())  # the store is still retired
    inprocess.stack.push_async_callback(hub.stop)
    await hub.start()
    rows = (await semq_at(hub, "hub", "stores", "list", "--json")).data
    assert [(row["store"], row["state"]) for row in rows][:2] == [("1.2", "in use"), ("1.1", "retired")]
    assert (rows[1]["by"], rows[1]["why"]) == ("guest", "disk lost on 3 March")
    target = await inprocess.local("56001", port)
    await linked(target)
    await until(partial(has_ended_lost, app, lk0))
