"""The server as a whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import pytest

from semq.amqp.errors import ConnectionForced, InternalError
from semq.amqp.events import Delivered
from semq.amqp.limits import ConnectionLimits
from semq.amqp.sasl import Credentials
from semq.broker.limits import BrokerLimits
from semq.broker.server import AmqpServer
from semq.broker.users import Permissions
from semq.errors import BadInput, Unavailable
from semq.store.broker.operations import DeclareExchange, DropMessages, MarkHandedOut, OrderlyEnd, SaveDone, StoreOp
from semq.transport.peer import PeerInfo
from tests.broker.memory_store import MemoryBrokerStore
from tests.transport.pair import ServedLinks, header, pair
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


@asynccontextmanager
async def aio_connection(endpoints: ServedLinks) -> AsyncIterator[aio_pika.abc.AbstractConnection]:
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{endpoints.server.port}/")
    async with connection:
        yield connection


async def test_aio_pika_works_without_changes() -> None:
    async with pair() as endpoints, aio_connection(endpoints) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.set_qos(prefetch_count=10)
        exchange = await channel.declare_exchange("events", aio_pika.ExchangeType.TOPIC, auto_delete=True)
        queue = await channel.declare_queue("", exclusive=True)
        await queue.bind(exchange, "order.#")
        for number in range(30):
            message = aio_pika.Message(b"%d" % number, headers={"n": number}, delivery_mode=2)
            await exchange.publish(message, f"order.{number}")
        numbers: list[int] = []
        async with queue.iterator() as messages:
            async for incoming in messages:
                if not numbers and not incoming.redelivered:
                    await incoming.nack(requeue=True)
                    continue
                await incoming.ack()
                numbers.append(incoming.headers["n"])  # type: ignore[arg-type]
                if len(numbers) == 30:
                    break
        assert sorted(numbers) == list(range(30))
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await exchange.publish(aio_pika.Message(b""), "nowhere", mandatory=True)
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue("none", passive=True)


async def test_aio_pika_can_use_transactions_and_get() -> None:
    async with pair() as endpoints, aio_connection(endpoints) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue("", exclusive=True)
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"1"), queue.name)
        channel = await connection.channel()  # a settlement on the transactional channel would wait for a commit
        queue = await channel.get_queue(queue.name)
        first = await queue.get()
        assert first is not None
        await first.reject(requeue=True)
        second = await queue.get()
        assert second is not None
        assert (second.body, second.redelivered) == (b"1", True)
        await second.ack()
        assert await queue.get(fail=False) is None


async def test_durable_definitions_and_messages_survive_a_restart() -> None:
    store = MemoryBrokerStore()
    async with pair(store) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.confirm_select()
        await channel.declare_queue("kept", durable=True)
        await channel.declare_exchange("e", "topic", durable=True)
        await channel.bind_queue("kept", "e", "#")
        for number in range(3):
            body = b"%d" % number
            assert await publish_and_wait(channel, "e", "k", header(body, delivery_mode=2, app_id="a"), body)
        first = await channel.get("kept")
        second = await channel.get("kept")
        assert first is not None
        assert second is not None
        channel.ack(second.delivery_tag)
        await channel.qos(1)
    async with pair(store) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        again = await channel.get("kept")
        assert again is not None
        assert (again.body, again.redelivered, again.header.app_id, again.message_count) == (b"0", True, "a", 1)
        last = await channel.get("kept", no_ack=True)
        assert last is not None
        assert (last.body, last.redelivered) == (b"2", False)
        channel.publish("e", "k", header(b"new"), b"new")
        new = await channel.get("kept")
        assert new is not None
        assert new.routing_key == "k"


async def test_messages_expire_without_a_request_of_a_client() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.declare_queue("dead", exclusive=True)
        arguments = {"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await channel.declare_queue("brief", exclusive=True, arguments=arguments)
        arrived = asyncio.Event()
        await channel.consume("dead", lambda _: arrived.set())
        channel.publish("", "brief", header(b"1", expiration="3600000"), b"1")
        await asyncio.wait_for(arrived.wait(), 10)


async def test_a_flood_blocks_its_publisher_before_it_fills_memory_and_other_connections_work() -> None:
    limits = BrokerLimits(memory_high=5_000_000, memory_low=4_000_000)
    async with pair(limits=limits, connection=ConnectionLimits(heartbeat=1)) as endpoints:
        flooding, working = await endpoints.dial(), await endpoints.dial()
        channel, other = await flooding.open_channel(), await working.open_channel()
        await channel.declare_queue("flood", exclusive=True)
        body = bytes(100_000)
        async with asyncio.timeout(60):
            while not flooding.is_blocked:
                if channel.may_publish:
                    channel.publish("", "flood", header(body), body)
                await asyncio.sleep(0)
        assert str(endpoints.server.alarm) == "low on memory"
        assert endpoints.server.figures().memory_bytes < 7_000_000
        await other.declare_queue("fine", exclusive=True)
        assert await other.get("fine") is None
        assert not working.is_blocked
        flooding.link.abort()
        await flooding.wait_closed()
        # The server does not read from a blocked publisher, so it notices the end when it cannot write a heartbeat.
        async with asyncio.timeout(10):
            while len(endpoints.server.sessions) > 1:  # noqa: ASYNC110 - the state causes no event
                await asyncio.sleep(0.01)
        assert endpoints.server.figures().memory_bytes == 0
        assert endpoints.server.alarm is None


async def test_a_consumer_that_never_acknowledges_gets_messages_up_to_its_limit() -> None:
    limits = BrokerLimits(unacked_bytes=1_000_000, unacked_count=150)
    async with pair(limits=limits) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.declare_queue("q", exclusive=True)
        deliveries: list[Delivered] = []

        await channel.consume("q", deliveries.extend)
        for _ in range(400):
            channel.publish("", "q", header(b"x"), b"x")
        await channel.qos(0)
        assert len(deliveries) == 150
        (session,) = endpoints.server.sessions
        assert session.allowance.unacked_count == 150
        channel.ack(deliveries[-1].delivery_tag, multiple=True)
        await channel.qos(0)
        assert len(deliveries) == 300


async def test_channels_of_one_connection_are_served_evenly() -> None:
    async with pair(limits=BrokerLimits(output_bytes=10_000)) as endpoints:
        publisher = await (await endpoints.dial()).open_channel()
        link = await endpoints.dial()
        order: list[str] = []
        for name, count in (("busy", 400), ("quiet", 5)):
            await publisher.declare_queue(name)
            for _ in range(count):
                publisher.publish("", name, header(bytes(5000)), bytes(5000))
        await publisher.qos(1)
        for name in ("busy", "quiet"):
            channel = await link.open_channel()
            await channel.consume(name, lambda batch, name=name: order.extend([name] * len(batch)), no_ack=True)  # type: ignore[misc]
        while len(order) < 405:  # noqa: ASYNC110 - the state causes no event
            await asyncio.sleep(0.001)
        assert order.index("quiet") < 200
        last = len(order) - 1 - order[::-1].index("quiet")
        assert last < 300


async def test_a_stop_reports_its_reason_and_waits_for_the_store() -> None:
    store = MemoryBrokerStore()
    async with pair(store) as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.declare_queue("kept", durable=True)
        channel.publish("", "kept", header(b"1", delivery_mode=2), b"1")
        await asyncio.sleep(0)
        await channel.qos(0)
        await endpoints.server.stop(5.0)
        assert isinstance(link.error, ConnectionForced)
        assert endpoints.server.journal.pending_bytes == 0
        assert len(store.messages) == 1


BAD, MARK, DROP = DeclareExchange("/", "bad", "topic", False, False, b""), MarkHandedOut(1, 5), DropMessages(1, [5])


@pytest.mark.parametrize(
    ("failures", "saved"),
    [
        ([], [[BAD, MARK, DROP], [OrderlyEnd()]]),
        ([BadInput()], [[OrderlyEnd()]]),
        ([Unavailable()], [[BAD], [MARK], [DROP], [OrderlyEnd()]]),
        ([Unavailable()] * 9, []),
    ],
)
async def test_an_orderly_end_is_noted_when_everything_else_is_saved(
    monkeypatch: pytest.MonkeyPatch, failures: list[BaseException], saved: list[list[StoreOp]]
) -> None:
    store, lists = MemoryBrokerStore(), list[list[StoreOp]]()
    save = store.save

    def failing(ops: list[StoreOp], done: SaveDone) -> None:
        store.failure = failures.pop(0) if failures else None
        if ops and store.failure is None:
            lists.append(ops)
        save(ops, done)

    async with pair(store) as endpoints:
        server = endpoints.server

        def leave_operations() -> None:
            server.journal.add(BAD)
            server.journal.mark_handed_out(1, 5)
            server.journal.drop(1, 5)

        monkeypatch.setattr(server.long_tasks, "finish", leave_operations)
        monkeypatch.setattr(store, "save", failing)
        await server.stop(5.0)
        assert lists == saved
        monkeypatch.undo()


async def test_the_server_counts_connections_queues_and_messages() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.declare_queue("q", exclusive=True)
        for _ in range(3):
            channel.publish("", "q", header(b"abc"), b"abc")
        await channel.get("q")
        counts = endpoints.server.figures()
        expected = {
            "connections": 1,
            "channels": 1,
            "published": 3,
            "delivered": 1,
            "queues": 1,
            "messages_ready": 2,
            "messages_unacked": 1,
        }
        assert {name: getattr(counts, name) for name in expected} == expected
        assert 9 < counts.memory_bytes < 3000
        await link.close()
        await endpoints.dial()
        counts = endpoints.server.figures()
        assert (counts.published, counts.delivered, counts.queues) == (3, 1, 0)


async def test_a_node_blocks_its_publishers_with_a_reason() -> None:
    async with pair() as endpoints:
        publisher, consumer = await endpoints.dial(), await endpoints.dial()
        channel = await publisher.open_channel()
        reasons: list[str | None] = []
        publisher.on_blocked = reasons.append
        channel.publish("", "none", header(b""), b"")
        await channel.qos(1)
        endpoints.server.block_publishers("low on disk")
        endpoints.server.block_publishers("low on disk")
        await (await consumer.open_channel()).qos(1)
        async with asyncio.timeout(10):
            await asyncio.gather(channel.wait_ready(), unblock_after_notice(endpoints, reasons))
        assert reasons == ["low on disk", None]
        assert not consumer.is_blocked


async def unblock_after_notice(endpoints: ServedLinks, reasons: list[str | None]) -> None:
    """Unblock publishers when the client knows why it is blocked."""
    await until(lambda: reasons)
    endpoints.server.block_publishers(None)


class RaisingAuthenticator:
    mechanisms: tuple[str, ...] = ("PLAIN",)

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        raise OSError("the directory is away")

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        return None


async def test_a_login_that_cannot_be_checked_ends_with_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    def prepare(server: AmqpServer) -> None:
        server.authenticator = RaisingAuthenticator()

    async with pair(prepare=prepare) as endpoints:
        with pytest.raises(InternalError, match="the login could not be checked"):
            await endpoints.dial()
        assert endpoints.server.counters.logins_refused == 0
        assert "the directory is away" in caplog.text
