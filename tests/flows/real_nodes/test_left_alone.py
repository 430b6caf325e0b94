"""Real nodes after a loss of acknowledgements: inquiry and cleanup empty every queue, each node on its own schedule."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.store.rows import Event, Side
from semq.transport.client_channel import ClientChannel
from tests.flows.losing import ACKNOWLEDGEMENTS, LosingProxy, losing
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

QUEUES = ("tb_0031", "tb_0031_body", "tb_0030", "tb_0030_body", "tb_0030_ledger")
STORED, FORWARDED = 12, 12  # numbers of documents
QUICK = "inquiry_s_max = 1.0\ninquiry_custody_s_max = 1.0\n"


def count(node: LocalNode | HubNode, source: str, *values: Any) -> int:
    """Return the number of rows of ``source``: a table, optionally with a condition."""
    with psycopg.connect(node.store.url) as connection:
        row = connection.execute(f"SELECT count(*) FROM {source}".encode(), values).fetchone()
    assert row is not None
    return int(row[0])


def remaining_rows(nodes: Sequence[LocalNode | HubNode]) -> Counter[str]:
    """Return the numbers of rows in the queues, without zeros."""
    query = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in QUEUES).encode()
    remaining: Counter[str] = Counter()
    for node in nodes:
        with psycopg.connect(node.store.url) as connection:
            remaining.update({f"{node.address}.{table}": rows for table, rows in connection.execute(query) if rows})
    return remaining


class RealInstitution:
    """A node and its application, which sends documents to 56001."""

    def __init__(self, node: LocalNode, channel: ClientChannel) -> None:
        self.node = node
        self.channel = channel
        self.received: list[bytes] = []

    async def submit(self, first: int, number: int) -> None:
        """Submit documents whose bodies are numbers; all are accepted when this returns."""
        assert all(await asyncio.gather(*(self._submit(b"%d" % n) for n in range(first, first + number))))

    async def _submit(self, body: bytes) -> bool:
        header = ContentHeader.build(len(body), Properties(headers={"@SaveFwd": 3, "@Ack2": 1}))
        return await publish_and_wait(self.channel, "semq", "56001", header, body)

    async def consume(self) -> None:
        """Receive and acknowledge documents."""

        def acknowledge(batch: Sequence[Any]) -> None:
            self.received += [bytes(delivered.body) for delivered in batch]
            self.channel.ack(batch[-1].delivery_tag, multiple=True)

        await self.channel.consume("semq.inbox", acknowledge)


async def institution(inprocess: InProcess, name: str, proxy: LosingProxy) -> RealInstitution:
    """Start a node whose link to the hub leads through the proxy."""
    settings = inprocess.settings(name, LOCAL_CONFIG.format(name=name, hub=proxy.port) + QUICK)
    node = await inprocess.start_node(settings)
    channel = await (await inprocess.client(node)).open_channel()
    await channel.confirm_select()
    return RealInstitution(node, channel)


@pytest.mark.parametrize("kind", ACKNOWLEDGEMENTS)
async def test_lost_acknowledgements_leave_nothing_behind(inprocess: InProcess, kind: str) -> None:
    hub = await inprocess.hub()
    proxies = [LosingProxy(hub.port), LosingProxy(hub.port)]
    for proxy in proxies:
        await proxy.start()
        inprocess.stack.push_async_callback(proxy.stop)
        proxy.loses = losing(kind)
    sender = await institution(inprocess, "10008", proxies[0])
    await linked(sender.node)
    await sender.submit(0, STORED)
    await until(lambda: count(hub, "tb_0031") == STORED)
    receiver = await institution(inprocess, "56001", proxies[1])
    await receiver.consume()
    await linked(receiver.node)
    await until(lambda: len(receiver.received) == STORED)
    await sender.submit(STORED, FORWARDED)
    await until(lambda: len(receiver.received) == STORED + FORWARDED)
    await until(lambda: any(proxy.lost for proxy in proxies))
    for proxy in proxies:
        proxy.loses = lambda primitive, record: False
    # Only the nodes' own timers act now.
    nodes = (hub, sender.node, receiver.node)
    await until(lambda: not remaining_rows(nodes))
    assert sum(node.engine.core.counters.counts.get("inquired", 0) for node in nodes) > 0
    assert sorted(map(int, receiver.received)) == list(range(STORED + FORWARDED))
    delivered = "semq_ledger WHERE side = %s AND event = %s"
    assert count(sender.node, delivered, Side.SENDER, Event.DELIVERED) == STORED + FORWARDED
    assert count(receiver.node, delivered, Side.RECEIVER, Event.RECEIVED) == STORED + FORWARDED
