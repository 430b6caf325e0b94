"""Operations on the broker."""

from typing import Any

import pytest

from local_node.node import LocalNode
from semq.amqp.content import ContentHeader, Properties
from semq.transport.client import ClientLink
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask
from tests.waiting import until


async def rows(client: ClientLink, operation: str, **arguments: Any) -> list[dict[str, Any]]:
    answer = await ask(client, operation, arguments)
    assert answer["ok"], answer
    result: list[dict[str, Any]] = answer["result"]["rows"]
    return result


async def start_node(inprocess: InProcess) -> tuple[LocalNode, ClientLink]:
    node = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1)))
    return node, await inprocess.client(node)


async def test_queues_consumers_connections_and_bindings_are_listed(inprocess: InProcess) -> None:
    _, client = await start_node(inprocess)
    channel = await client.open_channel()
    await channel.declare_queue("orders", durable=True)
    await channel.declare_exchange("sorted", "topic", durable=True)
    await channel.bind_queue("orders", "sorted", "a.#")
    body = b"x"
    for _ in range(3):
        channel.publish("", "orders", ContentHeader.build(1, Properties()), body)

    async def are_queued() -> bool:
        [row] = await rows(client, "broker.queues", name="orders")
        return bool(row["ready"] == 3)

    await until(are_queued)
    await channel.qos(2)
    await channel.consume("orders", lambda batch: None, consumer_tag="taker")
    await channel.consume("semq.inbox.buyer", lambda batch: None, consumer_tag="buyer-1")

    async def are_unacknowledged() -> bool:
        [row] = await rows(client, "broker.queues", name="orders")
        return (row["ready"], row["unacked"], row["consumers"]) == (1, 2, 1)

    await until(are_unacknowledged)
    [consumer] = await rows(client, "broker.consumers", name="orders")
    assert (consumer["tag"], consumer["prefetch"], consumer["unacked"]) == ("taker", 2, 2)
    [worker] = await rows(client, "worker.list")
    assert (worker["queue"], worker["tag"], worker["user"]) == ("semq.inbox.buyer", "buyer-1", consumer["user"])
    [connection] = await rows(client, "broker.connections")
    assert (connection["peer"], connection["unacked"]) == (consumer["peer"], 2)
    assert connection["connected_at"] > 0
    assert {row["number"] for row in await rows(client, "broker.channels")} >= {channel.number}
    [exchange] = await rows(client, "broker.exchanges", name="sorted")
    assert (exchange["type"], exchange["bindings"]) == ("topic", 1)
    [binding] = await rows(client, "broker.bindings", name="sorted")
    assert (binding["destination"], binding["kind"], binding["routing_key"]) == ("orders", "queue", "a.#")


async def test_only_a_page_that_may_have_inboxes_asks_the_database(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, client = await start_node(inprocess)
    census, calls = node.operations["queue.census"], list[str]()

    async def counted(arguments: dict[str, Any], caller: Any) -> Any:
        calls.append(caller.user)
        return await census(arguments, caller)

    monkeypatch.setitem(node.operations, "queue.census", counted)
    for page in {"name": "orders"}, {"name": "semq.web.events."}, {"vhost": "umx"}:
        await ask(client, "broker.queues", page)
    assert calls == []
    for name in "", "semq.in", "semq.inbox.buyer":
        await ask(client, "broker.queues", {"vhost": "/", "name": name})
    assert len(calls) == 3


async def test_pages_are_bounded_and_have_every_row_once(inprocess: InProcess) -> None:
    _, client = await start_node(inprocess)
    channel = await client.open_channel()
    names = [f"page-{number:02}" for number in range(7)]
    for name in names:
        await channel.declare_queue(name)
    listed = list[str]()
    after: Any = []
    for expected in (3, 3, 1):
        answer = (await ask(client, "broker.queues", {"name": "page-", "limit": 3, "after": after}))["result"]
        assert len(answer["rows"]) == expected
        listed += [row["name"] for row in answer["rows"]]
        after = answer["next"]
    assert (listed, after) == (names, None)
    assert await rows(client, "broker.queues", vhost="elsewhere") == []
    for arguments in ({"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"nonsense": 1}, {"after": 7}):
        answer = await ask(client, "broker.queues", arguments)
        assert answer["error"]["code"] == "SEMQ-2102", arguments
