"""Instances of a hub, as processes under load: instances are killed or stopped, their broker restarts, homes move."""

import json
import signal
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from local_node.node import LocalNode
from semq.amqp.events import Delivered
from semq.transport.client_channel import ClientChannel
from tests.cli.command import semq_aside
from tests.depth import deeper
from tests.flows.real_nodes.instance_processes import instance_processes
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

pytestmark = pytest.mark.processes
BATCH = deeper(15, 30)


class Correspondent:
    """The application of one institution, which sends numbered documents."""

    def __init__(self, node: LocalNode, target: str) -> None:
        self.node, self.target = node, target
        self.sent = 0
        self.received: list[int] = []
        self.events: list[str] = []
        self._out: ClientChannel

    async def begin(self, inprocess: InProcess) -> "Correspondent":
        link = await inprocess.client(self.node)
        self._out = await confirming(link)
        inward = await link.open_channel()
        queue = (await inward.declare_queue(exclusive=True)).queue
        await inward.bind_queue(queue, "semq.events", "#")
        await inward.consume(queue, self._note, no_ack=True)

        def receive(batch: Sequence[Delivered]) -> None:
            for delivered in batch:
                self.received.append(int(bytes(delivered.body)))
                inward.ack(delivered.delivery_tag)

        await inward.consume("semq.inbox", receive)
        return self

    def _note(self, batch: Sequence[Delivered]) -> None:
        self.events += [json.loads(bytes(delivered.body))["event"] for delivered in batch]

    async def send(self) -> None:
        for _ in range(BATCH):
            assert await publish(self._out, self.target, b"%d" % self.sent, OrderKey="k")
            self.sent += 1


async def wait_until_all_delivered(a: Correspondent, b: Correspondent) -> None:
    """Wait until all documents of both are delivered; check that each was received once, in order."""
    for sender, receiver in ((a, b), (b, a)):
        await until(partial(_is_done, sender, receiver), 120)
        assert receiver.received == list(range(sender.sent))
        assert sender.events.count("delivered") == sender.sent
        assert "failed" not in sender.events


def _is_done(sender: Correspondent, receiver: Correspondent) -> bool:
    return len(receiver.received) >= sender.sent and sender.events.count("delivered") >= sender.sent


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_an_instance_ends_and_its_standby_serves_its_store(
    end: signal.Signals, inprocess: InProcess, new_database: Callable[[], str]
) -> None:
    async with instance_processes(inprocess, new_database) as hub:
        one = hub.start_instance(1)
        await one.wait_until_ready()
        two = hub.start_instance(2)
        await two.wait_until_ready()
        standby = hub.start_instance(1)
        a = await Correspondent(await hub.start_local("10008", one, two), "56001").begin(inprocess)
        b = await Correspondent(await hub.start_local("56001", two, one), "10008").begin(inprocess)
        await linked(a.node, b.node)
        for each in (a, b):
            await each.send()
        await wait_until_all_delivered(a, b)
        for each in (a, b):
            await each.send()
        one.end(end)
        for each in (a, b):
            await each.send()
        await linked(a.node)  # at the other instance
        await standby.wait_until_ready()
        await wait_until_all_delivered(a, b)
        assert "carrier_foreign" not in two.log


async def test_the_broker_between_instances_ends_and_comes_back(
    inprocess: InProcess, new_database: Callable[[], str]
) -> None:
    async with instance_processes(inprocess, new_database) as hub:
        one = hub.start_instance(1)
        await one.wait_until_ready()
        two = hub.start_instance(2)
        await two.wait_until_ready()
        a = await Correspondent(await hub.start_local("10008", one), "56001").begin(inprocess)
        b = await Correspondent(await hub.start_local("56001", two), "10008").begin(inprocess)
        await linked(a.node, b.node)
        for each in (a, b):
            await each.send()
        await hub.restart_broker()
        for each in (a, b):
            await each.send()
        await wait_until_all_delivered(a, b)


async def test_homes_move_while_instances_are_killed(inprocess: InProcess, new_database: Callable[[], str]) -> None:
    async with instance_processes(inprocess, new_database) as hub:
        one = hub.start_instance(1)
        await one.wait_until_ready()
        two = hub.start_instance(2)
        await two.wait_until_ready()
        a = await Correspondent(await hub.start_local("10008", one, two), "56001").begin(inprocess)
        b = await Correspondent(await hub.start_local("56001", two, one), "10008").begin(inprocess)
        await linked(a.node, b.node)
        for turn, store in enumerate(("1.1", "2.2", "1.1", "2.2")[: deeper(3, 4)]):
            killed, other = (one, two) if turn % 2 else (two, one)
            for each in (a, b):
                await each.send()
            url = f"amqp://guest:guest@127.0.0.1:{other.port}"
            moved = await semq_aside("hub", "stores", "move", store, "10008", "56001", "--node", url)
            assert moved.status == 0, moved
            killed.end(signal.SIGKILL)
            for each in (a, b):
                await each.send()
            killed.launch()
            await killed.wait_until_ready()
        await wait_until_all_delivered(a, b)
