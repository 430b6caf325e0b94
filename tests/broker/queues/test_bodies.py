"""Large bodies are received and sent in chunks, and kept while they are used. Service exchanges limit their size."""

import asyncio
from typing import Any

import pytest

from semq.amqp import methods as m
from semq.amqp.errors import AmqpError, ContentTooLarge, NotFound
from semq.amqp.events import Delivered, Returned
from semq.amqp.limits import ConnectionLimits
from semq.broker.limits import BrokerLimits
from semq.broker.queues.bodies import CHUNK
from semq.broker.server import AmqpServer
from semq.broker.services import CONFIRMED, OfferedMessage, ServiceExchange
from semq.errors import Unavailable
from semq.store.broker.operations import AddBodyChunk, SaveDone, StoreOp
from semq.transport.client_channel import ClientChannel
from tests.broker.memory_store import MemoryBrokerStore
from tests.transport.pair import ServedLinks, header, pair
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

LIMITS = BrokerLimits(spill_from=100_000, in_hand_bytes=1_000_000)


def body_of(size: int) -> bytes:
    return bytes(range(256)) * (size // 256) + b"." * (size % 256)


BIG = body_of(5 * CHUNK + 1234)


async def confirming_channel(endpoints: ServedLinks) -> ClientChannel:
    channel = await (await endpoints.dial()).open_channel()
    await channel.confirm_select()
    return channel


@pytest.mark.parametrize("size", [100_000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 1234])
@pytest.mark.parametrize("mode", [1, 2])
async def test_a_large_body_is_stored_delivered_and_deleted(size: int, mode: int) -> None:
    store, body = MemoryBrokerStore(), body_of(size)
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("q", durable=True)
        assert await publish_and_wait(channel, "", "q", header(body, delivery_mode=mode, app_id="a"), body)
        assert sum(len(data) for chunks in store.bodies.values() for data in chunks.values()) == size
        assert endpoints.server.figures().memory_bytes < 2000
        message = await channel.get("q")
        assert message is not None
        assert (message.body, message.header.app_id) == (body, "a")
        channel.nack(message.delivery_tag)
        batches: list[Delivered] = []
        await channel.consume("q", batches.extend)
        await until(lambda: bool(batches))
        assert (batches[0].body, batches[0].redelivered) == (body, True)
        assert len(store.bodies) == 1
        channel.ack(batches[0].delivery_tag)
        await channel.qos(0)
        await until(lambda: not store.bodies)


async def test_one_body_in_several_queues_is_kept_until_the_last_queue_deletes_it() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        for name in ("a", "b", "gone"):
            await channel.declare_queue(name)
            await channel.bind_queue(name, "amq.fanout")
        assert await publish_and_wait(channel, "amq.fanout", "", header(BIG), BIG)
        assert len(store.bodies) == 1
        await channel.call(m.QueueDelete("gone"), m.QueueDeleteOk)
        first = await channel.get("a", no_ack=True)
        assert first is not None
        assert first.body == BIG
        assert len(store.bodies) == 1
        await channel.call(m.QueuePurge("b"), m.QueuePurgeOk)
        await until(lambda: not store.bodies)


async def test_unroutable_bodies_are_returned_or_deleted() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        returned: list[Returned] = []
        channel.on_returned = returned.append
        assert await publish_and_wait(channel, "", "nowhere", header(BIG), BIG)
        assert await publish_and_wait(channel, "", "nowhere", header(BIG), BIG, mandatory=True)
        assert [event.body for event in returned] == [BIG]
        await channel.qos(0)
        await until(lambda: not store.bodies)


async def test_dead_lettered_messages_keep_their_bodies() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await channel.declare_queue("q", arguments=arguments)
        assert await publish_and_wait(channel, "", "q", header(BIG), BIG)
        message = await channel.get("q")
        assert message is not None
        channel.reject(message.delivery_tag, requeue=False)
        again = await channel.get("dead")
        assert again is not None
        assert again.body == BIG
        assert again.header.headers is not None
        assert len(store.bodies) == 1
        channel.reject(again.delivery_tag, requeue=False)
        await channel.qos(0)
        await until(lambda: not store.bodies)


async def test_bodies_in_a_transaction_are_kept_until_its_end() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        await channel.declare_queue("q")
        for end, reply, bodies in ((m.TxRollback(), m.TxRollbackOk, 0), (m.TxCommit(), m.TxCommitOk, 1)):
            channel.publish("", "q", header(BIG), BIG)
            await channel.qos(0)
            assert len(store.bodies) == 1
            await channel.call(end, reply)
            await until(lambda bodies=bodies: len(store.bodies) == bodies)  # type: ignore[misc]
        message = await channel.get("q", no_ack=True)
        assert message is not None
        assert message.body == BIG


async def test_a_commit_with_a_publish_to_a_deleted_exchange_fails_and_nothing_takes_effect() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        await channel.declare_exchange("gone", "fanout")
        await channel.declare_queue("q")
        for exchange in ("", "gone"):
            channel.publish(exchange, "q", header(BIG), BIG)
        await channel.call(m.ExchangeDelete("gone"), m.ExchangeDeleteOk)
        assert len(store.bodies) == 2
        with pytest.raises(NotFound, match="no exchange 'gone'"):
            await channel.call(m.TxCommit(), m.TxCommitOk)
        await until(lambda: not store.bodies)
        assert endpoints.server.figures().messages_ready == 0


async def test_large_bodies_survive_a_restart_with_their_messages() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        for name in ("a", "b"):
            await channel.declare_queue(name, durable=True)
            await channel.bind_queue(name, "amq.fanout")
        assert await publish_and_wait(channel, "amq.fanout", "", header(BIG, delivery_mode=2), BIG)
        assert await publish_and_wait(channel, "amq.fanout", "", header(BIG, delivery_mode=1), BIG)
    assert len(store.bodies) == 2
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        assert len(store.bodies) == 1
        for name in ("a", "b"):
            message = await channel.get(name, no_ack=True)
            assert message is not None
            assert message.body == BIG
        assert await publish_and_wait(channel, "amq.fanout", "", header(BIG), BIG)
        assert max(store.bodies) > 1
        await until(lambda: len(store.bodies) == 1)


async def test_large_bodies_do_not_delay_a_small_message_on_another_channel() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        publisher, link = await confirming_channel(endpoints), await endpoints.dial()
        await publisher.declare_queue("big")
        await publisher.declare_queue("small")
        for _ in range(20):
            assert await publish_and_wait(publisher, "", "big", header(BIG), BIG)
        assert await publish_and_wait(publisher, "", "small", header(b"1"), b"1")
        order: list[str] = []
        for name in ("big", "small"):
            channel = await link.open_channel()
            await channel.consume(name, lambda batch, name=name: order.extend([name] * len(batch)), no_ack=True)  # type: ignore[misc]
        await until(lambda: len(order) == 21)
        assert order.index("small") < 9
        await until(lambda: not store.bodies)


async def test_a_partly_sent_message_is_requeued_when_its_connection_is_lost() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        publisher, reader = await confirming_channel(endpoints), await endpoints.dial()
        await publisher.declare_queue("q")
        assert await publish_and_wait(publisher, "", "q", header(BIG), BIG)
        channel = await reader.open_channel()
        await channel.consume("q", lambda _: None)
        reader.link.abort()
        await until(lambda: len(endpoints.server.sessions) == 1)
        message = await publisher.get("q")
        assert message is not None
        assert (message.body, message.redelivered) == (BIG, True)


async def test_a_partly_received_message_is_dropped_when_its_connection_is_lost() -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        link = await endpoints.dial()
        await link.open_channel()
        machine: Any = link.machine
        machine.start_content(1, m.BasicPublish("", "q"), header(BIG))
        machine.send_chunk(1, BIG[: 3 * CHUNK])
        link.link.request_write()
        await until(lambda: bool(store.bodies))
        link.link.abort()
        await until(lambda: not endpoints.server.sessions)
        await until(lambda: not store.bodies)


async def test_a_large_message_is_refused_before_its_body() -> None:
    async with pair(limits=LIMITS, connection=ConnectionLimits(body_max=10 * CHUNK)) as endpoints:
        link = await endpoints.dial()
        for exchange, size, error in (("none", 5, NotFound), ("", 11, ContentTooLarge)):
            channel = await link.open_channel()
            await channel.confirm_select()
            machine: Any = link.machine
            machine.start_content(channel.number, m.BasicPublish(exchange, "q"), header(bytes(size * CHUNK)))
            link.link.request_write()
            await until(lambda channel=channel: channel.error is not None)  # type: ignore[misc]
            assert isinstance(channel.error, error)


class AcceptingExchange(ServiceExchange):
    """An exchange that accepts all messages of at most two chunks."""

    transacts = True

    def __init__(self) -> None:
        super().__init__("door", "x-door", body_max=2 * CHUNK)
        self.bodies: list[bytes] = []

    def publish(self, message: OfferedMessage) -> None:
        self.bodies.append(message.body)
        message.settle(CONFIRMED)


async def test_a_service_gets_complete_messages_up_to_its_limit() -> None:
    exchange, store = AcceptingExchange(), MemoryBrokerStore()

    def prepare(server: AmqpServer) -> None:
        server.vhosts["/"].register(exchange)

    async with pair(store, LIMITS, prepare=prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        body = body_of(2 * CHUNK)
        assert await publish_and_wait(channel, "door", "k", header(body), body)
        assert exchange.bodies == [body]
        assert store.bodies == {}
        with pytest.raises(ContentTooLarge):
            await publish_and_wait(channel, "door", "k", header(body + b"x"), body + b"x")


class LowLimitExchange(AcceptingExchange):
    """An exchange whose limit is below the size from which bodies arrive in chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.body_max = 10


async def test_a_small_limit_of_a_service_applies_with_and_without_a_transaction() -> None:
    exchange = LowLimitExchange()

    def prepare(server: AmqpServer) -> None:
        server.vhosts["/"].register(exchange)

    async with pair(MemoryBrokerStore(), LIMITS, prepare=prepare) as endpoints:
        for in_transaction in (False, True):
            channel = await (await endpoints.dial()).open_channel()
            if in_transaction:
                await channel.call(m.TxSelect(), m.TxSelectOk)
            for body in (bytes(10), bytes(11)):
                channel.publish("door", "k", header(body), body)
            await until(lambda channel=channel: channel.error is not None)  # type: ignore[misc]
            assert isinstance(channel.error, ContentTooLarge)
        assert exchange.bodies == [bytes(10)]


class LowLimitDrainingExchange(LowLimitExchange):
    """A ``LowLimitExchange`` that gets messages above its limit without their bodies."""

    drains = True


async def test_a_service_that_drains_never_gets_a_body_above_its_limit() -> None:
    exchange = LowLimitDrainingExchange()

    def prepare(server: AmqpServer) -> None:
        server.vhosts["/"].register(exchange)

    async with pair(MemoryBrokerStore(), LIMITS, prepare=prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        for body in (bytes(10), bytes(11)):
            assert await publish_and_wait(channel, "door", "k", header(body), body)
        assert exchange.bodies == [bytes(10), b""]


class DrainingExchange(AcceptingExchange):
    """An exchange that records bodies, and the size of a message whose body was dropped."""

    drains = True

    def publish(self, message: OfferedMessage) -> None:
        size, body = message.header.body_size, message.body
        self.bodies.append(body if len(body) == size else b"%d bytes were dropped" % size)
        message.settle(CONFIRMED)


async def test_a_draining_service_is_notified_of_too_large_messages_and_the_channel_stays_open() -> None:
    exchange, store = DrainingExchange(), MemoryBrokerStore()

    def prepare(server: AmqpServer) -> None:
        server.vhosts["/"].register(exchange)

    async with pair(store, LIMITS, connection=ConnectionLimits(body_max=CHUNK), prepare=prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        for body in (body_of(2 * CHUNK), body_of(9 * CHUNK), b"x"):
            assert await publish_and_wait(channel, "door", "k", header(body), body)
        assert exchange.bodies == [body_of(2 * CHUNK), b"%d bytes were dropped" % (9 * CHUNK), b"x"]
        assert store.bodies == {}
        with pytest.raises(ContentTooLarge):
            await publish_and_wait(channel, "", "k", header(body_of(CHUNK + 1)), body_of(CHUNK + 1))


@pytest.mark.parametrize("when", ["arriving", "leaving"])
async def test_a_failing_store_ends_the_channel_or_connection_that_needs_it(when: str) -> None:
    store = MemoryBrokerStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("q")
        if when == "arriving":
            store.failure = OSError("disk full")
            with pytest.raises(AmqpError) as caught:
                await publish_and_wait(channel, "", "q", header(BIG), BIG)
        else:
            assert await publish_and_wait(channel, "", "q", header(BIG), BIG)
            store.bodies.clear()
            with pytest.raises(AmqpError) as caught:
                await channel.get("q")
        assert caught.value.reply_code == 541
        store.failure = None


class InterruptedStore(MemoryBrokerStore):
    """A store that is unavailable when it gets the first chunk of its first body, and never again."""

    is_interrupted = False

    def save(self, ops: list[StoreOp], done: SaveDone) -> None:
        if self.is_interrupted or not any(isinstance(op, AddBodyChunk) for op in ops):
            super().save(ops, done)
            return
        self.is_interrupted = True
        self._later(lambda: done(dict.fromkeys(range(len(ops)), Unavailable())))


async def test_a_message_of_which_one_chunk_was_not_saved_is_not_confirmed() -> None:
    store = InterruptedStore()
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("q", durable=True)
        with pytest.raises(AmqpError) as caught:
            await publish_and_wait(channel, "", "q", header(BIG, delivery_mode=2), BIG)
        assert caught.value.reply_code == 541
        again = await confirming_channel(endpoints)
        assert await again.get("q") is None
        await until(lambda: not store.bodies)
        assert await publish_and_wait(again, "", "q", header(BIG, delivery_mode=2), BIG)
        message = await again.get("q")
        assert message is not None
        assert message.body == BIG


async def test_requests_after_a_large_answer_are_answered_in_order() -> None:
    async with pair(MemoryBrokerStore(), LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("q")
        for body in (BIG, b"small", BIG):
            assert await publish_and_wait(channel, "", "q", header(body), body)
        answers = await asyncio.gather(*(channel.get("q") for _ in range(3)), channel.declare_queue("q", passive=True))
        assert [answer.body for answer in answers[:3] if answer is not None] == [BIG, b"small", BIG]  # type: ignore[union-attr]


async def test_a_large_mandatory_message_is_published_while_its_client_does_not_read() -> None:
    async with pair(MemoryBrokerStore(), LIMITS) as endpoints, asyncio.timeout(30):
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("q")
        (session,) = endpoints.server.sessions
        session.writable(False)
        assert await publish_and_wait(channel, "", "q", header(BIG), BIG, mandatory=True)
        message = await channel.get("q")
        assert message is not None
        assert message.body == BIG


async def test_recover_redelivers_every_large_body() -> None:
    store, bodies = MemoryBrokerStore(), [body_of(2 * CHUNK + number) for number in range(3)]
    async with pair(store, LIMITS) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.declare_queue("q")
        for body in bodies:
            assert await publish_and_wait(channel, "", "q", header(body), body)
        deliveries: list[Delivered] = []
        await channel.consume("q", deliveries.extend)
        await until(lambda: len(deliveries) == 3)
        await channel.call(m.BasicRecover(False), m.BasicRecoverOk)
        await until(lambda: len(deliveries) == 6)
        assert {delivered.body for delivered in deliveries[3:]} == set(bodies)
        assert all(delivered.redelivered for delivered in deliveries[3:])
        channel.ack(deliveries[-1].delivery_tag, multiple=True)
        await channel.qos(0)
        await until(lambda: not store.bodies)
