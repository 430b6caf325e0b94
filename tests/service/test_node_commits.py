"""A single document causes only those commits for which a caller waits."""

import asyncio

import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.events import Delivered
from semq.store.postgres import writer
from tests.local_node.test_node import confirming, publish, put
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked

DOCUMENTS = 10
# An inquiry, on a slow machine, and a cleanup may each cost a commit.
RARE = (("cleanup_s = 0.1", "cleanup_s = 3600"), ("inquiry_s = 0.5", "inquiry_s = 60"))
OTHER_COMMITS_MAX = 3  # commits of a node that belong to no document


def commits(node: LocalNode | HubNode) -> int:
    return node.store.counters.units - node.store.counters.read_only


async def test_a_single_document_costs_three_commits(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commits the acceptance, B the record, A the receipt."""
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    hub_config, local = HUB_CONFIG, LOCAL_CONFIG
    for replacement in RARE:
        hub_config, local = hub_config.replace(*replacement), local.replace(*replacement)
    hub = await inprocess.hub(hub_config)
    settings = (inprocess.settings(name, local.format(name=name, hub=hub.port)) for name in ("10008", "56001"))
    a, b = [await inprocess.start_node(each) for each in settings]
    await linked(a, b)
    listener = await (await inprocess.client(a)).open_channel()
    received: asyncio.Queue[None] = asyncio.Queue()
    queue = (await listener.declare_queue(exclusive=True)).queue
    await listener.bind_queue(queue, "semq.events", "delivered.#")
    await listener.consume(queue, lambda batch: put(received, [None] * len(batch)), no_ack=True)
    consumer = await (await inprocess.client(b)).open_channel()

    def acknowledge(batch: list[Delivered]) -> None:
        consumer.ack(batch[-1].delivery_tag, multiple=True)

    await consumer.consume("semq.inbox", acknowledge)
    sender = await confirming(await inprocess.client(a))
    nodes: list[LocalNode | HubNode] = [a, hub, b]
    before = [commits(node) for node in nodes]
    for _ in range(DOCUMENTS):
        assert await publish(sender, "56001", b"order")
        async with asyncio.timeout(60):
            await received.get()
    added = [commits(node) - earlier for node, earlier in zip(nodes, before, strict=True)]
    assert 2 * DOCUMENTS <= added[0] <= 2 * DOCUMENTS + OTHER_COMMITS_MAX
    assert added[1] <= OTHER_COMMITS_MAX
    assert DOCUMENTS <= added[2] <= DOCUMENTS + OTHER_COMMITS_MAX
