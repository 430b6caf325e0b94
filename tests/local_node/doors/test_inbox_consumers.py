"""The inbox is a queue like any other: each method and argument works as in RabbitMQ, or is refused with the reason."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from local_node.doors.inbox import InboxQueue
from local_node.doors.inbox_consumers import InboxConsumers
from local_node.node import LocalNode
from semq.amqp import errors as amqp
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.broker.arguments import QUEUE_ARGUMENTS, WITHOUT_EFFECT
from semq.transport.client_channel import ClientChannel
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import InProcess, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

INBOX = "semq.inbox"
DURABLE = {"durable": True}
LOCKED, FALSE, REFUSED = amqp.ResourceLocked, amqp.PreconditionFailed, amqp.AccessRefused
SINGLE = {"x-single-active-consumer": True}


class FakeConsumer:
    def __init__(self, name: str, priority: int = 0, credit: int = 1, exclusive: bool = False) -> None:
        self.name, self.priority, self.credit, self.exclusive = name, priority, credit, exclusive


def consumers_of(*added: Any, single: bool = False) -> InboxConsumers:
    consumers = InboxConsumers()
    consumers.has_single_active = single
    for consumer in added:
        consumers.add(consumer)
    return consumers


def turns(consumers: InboxConsumers, count: int) -> list[str]:
    names: list[str] = []
    for _ in range(count):
        chosen: Any = next(consumers.in_turn(), None)
        names.append("" if chosen is None else chosen.name)
    return names


def test_consumers_of_one_priority_take_turns_and_a_lower_one_waits() -> None:
    low, first, second = FakeConsumer("low"), FakeConsumer("first", 5), FakeConsumer("second", 5)
    consumers = consumers_of(low, first, second)
    assert (turns(consumers, 3), consumers.credit) == (["first", "second", "first"], 3)
    first.credit = 0
    assert turns(consumers, 2) == ["second", "second"]
    consumers.remove(second)  # type: ignore[arg-type]
    assert (turns(consumers, 1), len(consumers)) == (["low"], 2)


def test_the_single_active_consumer_keeps_its_role_until_it_ends() -> None:
    added = [FakeConsumer("first"), FakeConsumer("second"), FakeConsumer("high", 9), FakeConsumer("higher", 9)]
    consumers = consumers_of(*added, single=True)
    assert (turns(consumers, 2), consumers.credit) == (["first", "first"], 1)
    added[0].credit = 0
    assert (turns(consumers, 1), consumers.credit) == ([""], 0)
    for ended, active in ((0, "high"), (2, "higher"), (3, "second"), (1, "")):
        consumers.remove(added[ended])  # type: ignore[arg-type]
        assert turns(consumers, 1) == [active]
    assert consumers.credit == 0


def test_an_exclusive_consumer_is_alone() -> None:
    consumers = consumers_of()
    assert (consumers.may_add(True), consumers.may_add(False)) == (True, True)
    consumers.add(FakeConsumer("one", exclusive=True))  # type: ignore[arg-type]
    assert (consumers.may_add(True), consumers.may_add(False)) == (False, False)
    shared = consumers_of(FakeConsumer("one"))
    assert (shared.may_add(True), shared.may_add(False)) == (False, True)
    assert not consumers_of(single=True).may_add(True)


def test_every_argument_of_queues_is_supported_or_refused_with_a_reason() -> None:
    decided = InboxQueue.supported | InboxQueue.refused.keys()
    assert decided == {name for name, (field, _) in QUEUE_ARGUMENTS.items() if field not in WITHOUT_EFFECT}


@pytest.fixture
async def node(inprocess: InProcess) -> LocalNode:
    _, node = await inprocess.linked_pair()
    return node


# Settings of queue.declare | the error, and its text (None: accepted)
DECLARATIONS: list[tuple[dict[str, Any], dict[str, Any], type[amqp.AmqpError] | None, str]] = [
    ({}, {}, None, ""),
    ({"passive": True, "durable": False}, {"x-message-ttl": 5}, None, ""),  # compares nothing
    ({"durable": False}, {}, FALSE, "inequivalent arg 'durable'"),
    ({"auto_delete": True}, {}, FALSE, "inequivalent arg 'auto_delete'"),
    ({"exclusive": True}, {}, LOCKED, "exclusive"),
    ({}, {"x-queue-type": "quorum", "x-queue-mode": "lazy", "x-mine": 1}, None, ""),
    ({}, {"x-queue-type": "classic", "x-max-priority": 0, "x-single-active-consumer": False}, None, ""),
    ({}, {"x-queue-type": "stream"}, FALSE, "unsupported queue type 'stream'"),
    ({}, {"x-message-ttl": "soon"}, FALSE, "'x-message-ttl'.*expected integer"),
    ({}, {"x-message-ttl": 5000}, FALSE, "'x-message-ttl'.*@ExpiresAt only"),
    ({}, {"x-expires": 5000}, FALSE, "'x-expires'.*never deleted"),
    ({}, {"x-max-length": 5}, FALSE, "'x-max-length'.*without a limit"),
    ({}, {"x-max-length-bytes": 5}, FALSE, "'x-max-length-bytes'.*without a limit"),
    ({}, {"x-overflow": "reject-publish"}, FALSE, "'x-overflow'.*without a limit"),
    ({}, {"x-max-priority": 9}, FALSE, "'x-max-priority'.*priorities of their senders"),
    ({}, {"x-dead-letter-exchange": "dlx"}, FALSE, "'x-dead-letter-exchange'.*is parked"),
    ({}, {"x-delivery-limit": 3}, FALSE, "'x-delivery-limit'.*is parked after"),
    ({}, {"x-consumer-timeout": 60_000}, FALSE, "'x-consumer-timeout'.*until that answers"),
    ({}, {"x-single-active-consumer": "yes"}, FALSE, "'x-single-active-consumer'"),
]

# Method | the error, and its text (None: works)
METHODS: list[tuple[m.Method, type[amqp.AmqpError] | None, str]] = [
    (m.QueuePurge(INBOX), REFUSED, "it cannot be purged"),
    (m.QueueDelete(INBOX), REFUSED, "it cannot be deleted"),
    (m.QueueDelete(INBOX, if_unused=True, if_empty=True), REFUSED, "it cannot be deleted"),
    (m.QueueBind(INBOX, "amq.fanout", ""), REFUSED, "it cannot be bound"),
    (m.QueueUnbind(INBOX, "amq.fanout", ""), REFUSED, "it cannot be bound"),
    (m.BasicConsume(INBOX, arguments={"x-priority": "high"}), FALSE, "x-priority"),
    (m.BasicConsume(INBOX, arguments={"x-priority": 5}), None, ""),
    (m.BasicConsume(INBOX, exclusive=True), None, ""),
    (m.BasicConsume(INBOX, no_local=True), None, ""),
    (m.BasicGet(INBOX), None, ""),
]


async def ask_alone(node: LocalNode, inprocess: InProcess, method: m.Method) -> None:
    """Send a method on a channel of its own. Raises the AmqpError that closes the channel."""
    link = await inprocess.client(node)
    async with asyncio.timeout(60):
        await (await link.open_channel())._ask(method)
    await link.close()


async def test_every_method_and_declaration_works_or_is_refused_with_the_reason(
    inprocess: InProcess, node: LocalNode
) -> None:
    declarations = [
        (m.QueueDeclare(INBOX, **(DURABLE | settings), arguments=arguments), error, text)
        for settings, arguments, error, text in DECLARATIONS
    ]
    for method, error, text in (*declarations, *METHODS):
        if error is None:
            await ask_alone(node, inprocess, method)
        else:
            with pytest.raises(error, match=text):
                await ask_alone(node, inprocess, method)


async def send(inprocess: InProcess, node: LocalNode, *bodies: bytes) -> None:
    channel = await confirming(await inprocess.client(node))
    for body in bodies:
        assert await publish(channel, "10008", body)


class ReadingConsumer:
    """A consumer on a connection of its own."""

    def __init__(self, channel: ClientChannel) -> None:
        self.channel = channel
        self.received: list[Delivered] = []

    @classmethod
    async def start(
        cls, inprocess: InProcess, node: LocalNode, prefetch: int = 0, channel: ClientChannel | None = None, **how: Any
    ) -> "ReadingConsumer":
        reader = cls(channel or await (await inprocess.client(node)).open_channel())
        if prefetch:
            await reader.channel.qos(prefetch)
        await reader.channel.consume(INBOX, reader._keep, **how)
        return reader

    def _keep(self, batch: Sequence[Delivered]) -> None:
        self.received += batch

    @property
    def bodies(self) -> list[bytes]:
        return [bytes(delivered.body) for delivered in self.received]

    def received_are(self, *bodies: bytes) -> Callable[[], bool]:
        return lambda: self.bodies == list(bodies)


async def test_an_exclusive_consumer_of_the_inbox_gets_all_documents(inprocess: InProcess, node: LocalNode) -> None:
    reader = await ReadingConsumer.start(inprocess, node, exclusive=True)
    for exclusive in (True, False):
        with pytest.raises(amqp.AccessRefused, match=f"queue '{INBOX}' in vhost '/' in exclusive use"):
            await ReadingConsumer.start(inprocess, node, exclusive=exclusive)
    await send(inprocess, node, b"1", b"2")
    await until(reader.received_are(b"1", b"2"))
    reader.channel.close()
    other = await ReadingConsumer.start(inprocess, node)
    await until(other.received_are(b"1", b"2"))
    with pytest.raises(amqp.AccessRefused):
        await ReadingConsumer.start(inprocess, node, exclusive=True)


async def test_a_consumer_of_higher_priority_gets_documents_first(inprocess: InProcess, node: LocalNode) -> None:
    low = await ReadingConsumer.start(inprocess, node, prefetch=10)
    high = await ReadingConsumer.start(inprocess, node, prefetch=2, arguments={"x-priority": 5})
    await send(inprocess, node, b"1", b"2", b"3")
    await until(low.received_are(b"3"))
    assert high.bodies == [b"1", b"2"]


async def test_the_inbox_may_have_a_single_active_consumer_also_after_a_restart(
    inprocess: InProcess, node: LocalNode
) -> None:
    declarer = await (await inprocess.client(node)).open_channel()
    await declarer.declare_queue(INBOX, durable=True, arguments=SINGLE)
    first, second = await ReadingConsumer.start(inprocess, node), await ReadingConsumer.start(inprocess, node)
    with pytest.raises(amqp.AccessRefused):
        await ReadingConsumer.start(inprocess, node, exclusive=True)
    await send(inprocess, node, b"1", b"2")
    await until(first.received_are(b"1", b"2"))
    assert second.bodies == []
    for arguments, text in (({}, "current is the value 'true'"), ({"x-single-active-consumer": False}, "no consumers")):
        with pytest.raises(amqp.PreconditionFailed, match=text):
            await ask_alone(node, inprocess, m.QueueDeclare(INBOX, durable=True, arguments=arguments))
    first.channel.close()
    await until(second.received_are(b"1", b"2"))
    second.channel.ack(2, multiple=True)

    settings = node.settings
    await node.stop()
    node = await inprocess.start_node(settings)
    await linked(node)
    readers = [await ReadingConsumer.start(inprocess, node) for _ in range(2)]
    await send(inprocess, node, b"3", b"4")
    await until(readers[0].received_are(b"3", b"4"))
    assert readers[1].bodies == []
    for reader in readers:
        await reader.channel.cancel(next(iter(reader.channel._consumers)))
    await ask_alone(node, inprocess, m.QueueDeclare(INBOX, durable=True, arguments={"x-single-active-consumer": False}))
    await ask_alone(node, inprocess, m.QueueDeclare(INBOX, durable=True))


async def test_the_prefetch_of_a_channel_bounds_all_its_consumers_of_the_inbox(
    inprocess: InProcess, node: LocalNode
) -> None:
    channel = await (await inprocess.client(node)).open_channel()
    await channel.qos(3, per_channel=True)
    readers = [await ReadingConsumer.start(inprocess, node, channel=channel) for _ in range(2)]
    await send(inprocess, node, *(b"%d" % number for number in range(6)))
    await until(lambda: sum(len(reader.received) for reader in readers) == 3)
    other = await ReadingConsumer.start(inprocess, node)
    await until(lambda: len(other.received) == 3)
    assert sum(len(reader.received) for reader in readers) == 3


async def test_recovered_documents_are_delivered_again(inprocess: InProcess, node: LocalNode) -> None:
    reader = await ReadingConsumer.start(inprocess, node)
    await send(inprocess, node, b"1")
    await until(reader.received_are(b"1"))
    await reader.channel.call(m.BasicRecover(True), m.BasicRecoverOk)
    await until(reader.received_are(b"1", b"1"))
    reader.channel._machine.send(reader.channel.number, m.BasicRecoverAsync(True))
    reader.channel._link.request_write()
    await until(reader.received_are(b"1", b"1", b"1"))
    assert [delivered.redelivered for delivered in reader.received] == [False, True, True]


async def test_no_message_of_an_application_gets_into_the_inbox_or_to_an_exchange_of_the_node(
    inprocess: InProcess, node: LocalNode
) -> None:
    link = await inprocess.client(node)
    await (await link.open_channel()).declare_queue("own")
    for key, headers in ((INBOX, {}), ("semq.inbox.buyer", {}), ("own", {"CC": [INBOX]}), ("own", {"BCC": [INBOX]})):
        header = ContentHeader.build(1, Properties(headers=headers))
        with pytest.raises(amqp.AccessRefused, match="only the node puts messages into it"):
            await publish_and_wait(await confirming(link), "", key, header, b"x")
    for target in ("semq", "semq.events", "semq.admin"):
        with pytest.raises(amqp.AccessRefused, match="it cannot be a dead-letter exchange"):
            await (await link.open_channel()).declare_queue("q", arguments={"x-dead-letter-exchange": target})
        with pytest.raises(amqp.AccessRefused, match="it cannot be an alternate exchange"):
            await (await link.open_channel()).declare_exchange("e", arguments={"alternate-exchange": target})
    assert (await (await link.open_channel()).declare_queue("own", passive=True)).message_count == 0
