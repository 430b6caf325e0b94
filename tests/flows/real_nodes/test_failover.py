"""A node whose Postgres fails over to a standby, with real streaming replication."""

import asyncio
from collections import Counter
from pathlib import Path

from local_node.node import LocalNode
from semq.app import Client
from semq.errors import SemqError
from tests.depth import deeper
from tests.service.inprocess import InProcess, ask, linked
from tests.store.embedded.replication import ReplicatedServers, replicated
from tests.waiting import until

DOCUMENTS = deeper(90, 300)


async def start_pair(inprocess: InProcess, pair: ReplicatedServers) -> tuple[LocalNode, LocalNode]:
    """Start a hub, institution 10008 on the pair of servers, and institution 56001."""
    hub = await inprocess.hub()
    single = inprocess.new_database
    inprocess.new_database = lambda: pair.url
    a = await inprocess.local("10008", hub.port)
    inprocess.new_database = single
    b = await inprocess.local("56001", hub.port)
    await linked(a, b)
    return a, b


def client_of(node: LocalNode) -> Client:
    return Client(f"amqp://guest:guest@127.0.0.1:{node.port}")


async def fail_over(pair: ReplicatedServers, node: LocalNode) -> None:
    """Let the standby replace the primary, and wait until the node works with it."""
    pair.kill_primary()
    await asyncio.to_thread(pair.promote)
    await until(lambda: node.engine_starts > 1 and node.store.state == "open" and node.parts.hub.link is not None)


async def test_nothing_is_lost_or_doubled_if_the_standby_is_synchronous(inprocess: InProcess, tmp_path: Path) -> None:
    with replicated(tmp_path, synchronous=True) as pair:
        a, b = await start_pair(inprocess, pair)
        sent: set[bytes] = set()

        async def send(client: Client) -> None:
            while len(sent) < DOCUMENTS:
                body = b"%d" % len(sent)
                while body not in sent:
                    try:
                        await client.send("56001", body, token=body.decode())
                        sent.add(body)
                    except SemqError:  # not confirmed: repeated with the same token
                        await asyncio.sleep(0.01)

        async with client_of(a) as sender, client_of(b) as receiver:
            sending = asyncio.ensure_future(send(sender))
            await until(lambda: len(sent) > DOCUMENTS // 3)
            await fail_over(pair, a)
            await sending
            received: list[object] = []
            async with receiver.receive() as documents:
                async for document in documents:
                    received.append(document.body)
                    await document.ack()
                    if len(received) >= len(sent):
                        break
        assert Counter(received) == Counter(sent)
        assert a.store.counters.went_back == 0


async def test_a_standby_without_the_last_commits_is_recognised(inprocess: InProcess, tmp_path: Path) -> None:
    with replicated(tmp_path, synchronous=False) as pair:
        a, b = await start_pair(inprocess, pair)
        async with client_of(a) as sender, client_of(b) as receiver:
            first = await sender.send("56001", b"replicated")
            await sender.wait_for_delivery(first.lk0)
            await asyncio.to_thread(pair.cut_replication)
            lost = await sender.send("56001", b"not replicated")
            await sender.wait_for_delivery(lost.lk0)
            await fail_over(pair, a)
            answer = (await ask(await inprocess.client(a), "node.health"))["result"]
            [check] = [check for check in answer["checks"] if check["check"] == "store"]
            assert (check["verdict"], a.store.counters.went_back) == ("warning", 1)
            assert "operator's guide" in check["detail"]
            again = await sender.send("56001", b"after")
            await sender.wait_for_delivery(again.lk0)
            received = []
            async with receiver.receive() as documents:
                async for document in documents:
                    received.append(document.body)
                    await document.ack()
                    if document.body == b"after":
                        break
        assert received == [b"replicated", b"not replicated", b"after"]
