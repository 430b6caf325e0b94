"""Exchanges and queues that a service of the node implements, used through real connections."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from semq.amqp import methods as m
from semq.amqp.errors import AccessRefused, AmqpError, ContentTooLarge, NotAllowed, NotFound
from semq.amqp.events import Delivered
from semq.broker import session as sessions
from semq.broker.limits import BrokerLimits
from semq.broker.queues.queue import Disposition
from semq.broker.server import AmqpServer
from semq.broker.services import (
    CONFIRMED,
    NACKED,
    OfferedMessage,
    Refused,
    ReturnedToSender,
    ServiceConsumer,
    ServiceDelivery,
    ServiceExchange,
    ServiceGetter,
    ServiceQueue,
    SessionInfo,
    Settle,
)
from semq.broker.vhost import SessionHooks
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost
from tests.transport.pair import ServedLinks, header, pair
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


class SettlingExchange(ServiceExchange):
    """An exchange that settles a message as its routing key says. If the key is unknown, ``settle`` waits in
    ``waiting``.
    """

    transacts = True

    def __init__(self) -> None:
        super().__init__("door", "x-door")
        self.published: list[tuple[str, str, bytes]] = []
        self.waiting: list[Settle] = []

    def publish_whole(self, messages: Sequence[OfferedMessage]) -> None:
        for message in messages:
            self.publish(message)

    def publish(self, message: OfferedMessage) -> None:
        session, routing_key, _, body, _, settle, *_ = message
        self.published.append((session.user, routing_key, body))
        match routing_key:
            case "now":
                settle(CONFIRMED)
            case "soon":
                asyncio.get_running_loop().call_soon(settle, CONFIRMED)
            case "nack":
                settle(NACKED)
            case "return":
                settle(ReturnedToSender(313, "NOBODY_THERE"))
            case "refuse":
                settle(Refused(ContentTooLarge("too large for a door")))
            case "raise":
                raise NotFound("no such target")
            case _:
                self.waiting.append(settle)


class CreditQueue(ServiceQueue):
    """A queue that delivers to consumers with credit; returned messages come first.

    If ``is_slow``, requests wait in ``getters`` and ``counting`` until the test answers them.
    """

    def __init__(self) -> None:
        super().__init__("inbox")
        self.consumers: dict[ServiceConsumer, None] = {}
        self.waiting: list[bytes] = []
        self.settlements: list[tuple[str | None, list[bytes], Disposition]] = []
        self.refusal: AmqpError | None = None
        self.is_slow = False
        self.getters: list[ServiceGetter] = []
        self.counting: list[Callable[[int, int], None]] = []

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        return self.refusal

    def attach(self, consumer: ServiceConsumer) -> None:
        self.consumers[consumer] = None
        self.push()

    def detach(self, consumer: ServiceConsumer) -> None:
        del self.consumers[consumer]

    def resume(self, consumer: ServiceConsumer) -> None:
        self.push()

    def settled(self, consumer: ServiceConsumer | None, tokens: list[Any], disposition: Disposition) -> None:
        self.settlements.append((consumer.tag if consumer else None, tokens, disposition))
        if disposition in (Disposition.REQUEUE, Disposition.LOST):
            self.waiting[:0] = tokens

    def get(self, getter: ServiceGetter) -> None:
        if self.is_slow:
            self.getters.append(getter)
        else:
            self.answer(getter)

    def answer(self, getter: ServiceGetter) -> None:
        body = self.waiting.pop(0) if self.waiting else None
        delivery = None if body is None else ServiceDelivery("door", "key", header(body), body, False, body)
        getter.answer(delivery, len(self.waiting))

    def counts(self, answer: Callable[[int, int], None]) -> None:
        if self.is_slow:
            self.counting.append(answer)
        else:
            answer(len(self.waiting), len(self.consumers))

    def put(self, *bodies: bytes) -> None:
        self.waiting += bodies
        self.push()

    def push(self) -> None:
        for consumer in self.consumers:
            while self.waiting and consumer.credit > 0:
                body = self.waiting.pop(0)
                consumer.deliver("door", "key", header(body), body, False, body)


class RegisteredServices:
    """An exchange and an inbox of the node, and the sessions for which the hooks were called."""

    def __init__(self) -> None:
        self.exchange, self.inbox = SettlingExchange(), CreditQueue()
        self.opened: list[SessionInfo] = []
        self.closed: list[SessionInfo] = []

    def prepare(self, server: AmqpServer) -> None:
        vhost = server.vhosts["/"]
        vhost.register(self.exchange)
        vhost.register(self.inbox)
        vhost.hooks.append(SessionHooks(self.opened.append, self.closed.append))


async def confirming_channel(endpoints: ServedLinks) -> ClientChannel:
    channel = await (await endpoints.dial()).open_channel()
    await channel.confirm_select()
    return channel


async def test_outcomes_reach_the_publisher() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        returned: list[tuple[int, str]] = []
        channel.on_returned = lambda event: returned.append((event.reply_code, event.reply_text))
        for key, mandatory, expected in (
            ("now", False, True),
            ("soon", False, True),
            ("nack", False, False),
            ("return", False, True),
            ("return", True, True),
        ):
            assert await publish_and_wait(channel, "door", key, header(b"b"), b"b", mandatory=mandatory) is expected
        assert returned == [(313, "NOBODY_THERE")]
        assert services.exchange.published[0] == ("guest", "now", b"b")
        link = endpoints.links[0]
        for key, error in (("refuse", ContentTooLarge), ("raise", NotFound)):
            other = await link.open_channel()
            await other.confirm_select()
            with pytest.raises(error) as caught:
                await publish_and_wait(other, "door", key, header(b""), b"")
            assert (caught.value.class_id, caught.value.method_id) == (60, 40)
        assert channel.is_open


async def test_outcomes_in_any_order_reach_their_own_publishes() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        settled: list[tuple[Any, bool]] = []
        channel.on_settled = settled.extend
        for number in range(6):
            channel.publish("door", "held", header(b""), b"", token=number)
        await until(lambda: len(services.exchange.waiting) == 6)
        settles = services.exchange.waiting
        for number in (5, 1, 2):
            settles[number](NACKED if number == 2 else CONFIRMED)
        await until(lambda: len(settled) == 3)
        assert sorted(settled) == [(1, True), (2, False), (5, True)]
        for number in (0, 3, 4):
            settles[number](CONFIRMED)
        await until(lambda: len(settled) == 6)
        assert all(is_confirmed for token, is_confirmed in settled if token != 2)


async def test_confirms_that_may_wait_share_the_next_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SettlingExchange, "confirms_later", True)
    monkeypatch.setattr(sessions, "LATER_S", 3600.0)
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        settled: list[Any] = []
        channel.on_settled = settled.extend
        channel.publish("door", "now", header(b"a"), b"a", token="delivery")
        await until(lambda: len(services.exchange.published) == 1)
        services.inbox.waiting.append(b"other output")
        await channel.consume("inbox", lambda batch: None)
        await until(lambda: settled == [("delivery", True)])
        for number in range(sessions.CONFIRMS_WAITING_MAX):
            channel.publish("door", "now", header(b"b"), b"b", token=number)
        await until(lambda: len(settled) == 1 + sessions.CONFIRMS_WAITING_MAX)
        monkeypatch.setattr(sessions, "LATER_S", 0.0)
        channel.publish("door", "now", header(b"c"), b"c", token="timer")
        await until(lambda: settled[-1] == ("timer", True))


async def test_a_second_settlement_is_a_fault_of_the_service_and_a_late_one_is_not() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        for _ in range(2):
            channel.publish("door", "held", header(b""), b"")
        await until(lambda: len(services.exchange.waiting) == 2)
        first, second = services.exchange.waiting
        first(CONFIRMED)
        with pytest.raises(RuntimeError, match="twice"):
            first(CONFIRMED)
        await endpoints.links[0].close()
        second(Refused(NotFound("late")))


async def test_reading_pauses_while_the_service_is_behind() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare, limits=BrokerLimits(in_hand_bytes=500_000)) as endpoints:
        channel, neighbour = await confirming_channel(endpoints), await confirming_channel(endpoints)
        body = bytes(50_000)
        published = 0
        settled: list[Any] = []
        channel.on_settled = settled.extend
        while channel.may_publish and published < 2000:
            channel.publish("door", "held", header(body), body, token=published)
            published += 1
            await asyncio.sleep(0)
        assert published < 2000
        assert len(services.exchange.waiting) < 40
        assert await publish_and_wait(neighbour, "door", "now", header(b""), b"")
        while len(settled) < published:
            waiting, services.exchange.waiting = services.exchange.waiting, []
            for settle in waiting:
                settle(CONFIRMED)
            await asyncio.sleep(0)
        assert channel.may_publish


async def test_deliveries_stay_within_credit_and_settlements_come_in_batches() -> None:
    services = RegisteredServices()
    inbox = services.inbox
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        deliveries: list[Delivered] = []
        await channel.qos(3)
        tag = await channel.consume("inbox", deliveries.extend)
        inbox.put(b"1", b"2", b"3", b"4", b"5")
        await until(lambda: len(deliveries) == 3)
        assert (await channel.declare_queue("inbox", passive=True)).message_count == 2
        channel.ack(deliveries[1].delivery_tag, multiple=True)
        await until(lambda: len(deliveries) == 5)
        assert inbox.settlements == [(tag, [b"1", b"2"], Disposition.ACK)]
        channel.nack(deliveries[2].delivery_tag)
        channel.reject(deliveries[3].delivery_tag, requeue=False)
        await until(lambda: len(deliveries) == 6)
        assert inbox.settlements[1:] == [
            (tag, [b"3"], Disposition.REQUEUE),
            (tag, [b"4"], Disposition.REJECT),
        ]
        assert [event.body for event in deliveries] == [b"1", b"2", b"3", b"4", b"5", b"3"]
        await channel.cancel(tag)
        assert inbox.consumers == {}
        channel.ack(deliveries[4].delivery_tag)
        channel.close()
        await until(lambda: len(inbox.settlements) == 5)
        assert inbox.settlements[3:] == [(tag, [b"5"], Disposition.ACK), (tag, [b"3"], Disposition.LOST)]


async def test_unsettled_deliveries_return_to_the_service_when_the_connection_is_lost() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        deliveries: list[Delivered] = []
        tag = await channel.consume("inbox", deliveries.extend)
        services.inbox.put(b"1", b"2")
        await until(lambda: len(deliveries) == 2)
        endpoints.links[0].link.abort()
        await until(lambda: bool(services.closed))
        assert services.inbox.settlements == [(tag, [b"1", b"2"], Disposition.LOST)]
        assert services.inbox.consumers == {}


async def test_deliveries_to_a_consumer_with_no_ack_are_settled_at_once() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        deliveries: list[Delivered] = []
        tag = await channel.consume("inbox", deliveries.extend, no_ack=True)
        services.inbox.put(*(b"%d" % number for number in range(1000)))
        await until(lambda: len(deliveries) == 1000)
        assert {(consumer, disposition) for consumer, _, disposition in services.inbox.settlements} == {
            (tag, Disposition.ACK)
        }


async def test_a_prefetch_of_the_channel_bounds_deliveries_of_a_service() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        await channel.qos(2, per_channel=True)
        deliveries: list[Delivered] = []
        await channel.consume("inbox", deliveries.extend)
        await channel.consume("inbox", deliveries.extend)
        services.inbox.put(b"1", b"2", b"3")
        await until(lambda: len(deliveries) == 2)
        (first, *_) = services.inbox.consumers
        assert (first.credit, services.inbox.waiting) == (0, [b"3"])
        channel.ack(deliveries[0].delivery_tag)
        await until(lambda: len(deliveries) == 3)


async def test_basic_get_returns_messages_of_a_service() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        assert await channel.get("inbox") is None
        services.inbox.waiting = [b"1", b"2"]
        for no_ack in (True, False):
            message = await channel.get("inbox", no_ack)
            assert message is not None
            if not no_ack:
                assert (message.body, message.message_count) == (b"2", 0)
                channel.ack(message.delivery_tag)
        await until(lambda: len(services.inbox.settlements) == 2)
        assert services.inbox.settlements == [(None, [b"1"], Disposition.ACK), (None, [b"2"], Disposition.ACK)]


async def test_requests_of_a_channel_wait_until_a_service_has_answered() -> None:
    services = RegisteredServices()
    services.inbox.is_slow = True
    async with pair(prepare=services.prepare) as endpoints:
        channel, neighbour = await confirming_channel(endpoints), await confirming_channel(endpoints)
        requests = [asyncio.create_task(channel.get("inbox")) for _ in range(2)]
        requests.append(asyncio.create_task(neighbour.get("inbox")))
        await until(lambda: len(services.inbox.getters) == 2)  # the second request of a channel waits
        services.inbox.waiting = [b"1"]
        for number in range(3):
            await until(lambda number=number: len(services.inbox.getters) > number)  # type: ignore[misc]
            services.inbox.answer(services.inbox.getters[number])
        async with asyncio.timeout(60):
            messages = [await task for task in requests]
        assert [message.body if message else None for message in messages] == [b"1", None, None]

        declared = asyncio.create_task(channel.declare_queue("inbox", passive=True))
        await until(lambda: bool(services.inbox.counting))
        assert not declared.done()
        services.inbox.counting[0](7, 3)
        async with asyncio.timeout(60):
            result = await declared
        assert (result.message_count, result.consumer_count) == (7, 3)


async def test_a_delivery_for_a_closed_channel_returns_to_the_service() -> None:
    services = RegisteredServices()
    services.inbox.is_slow = True
    async with pair(prepare=services.prepare) as endpoints:
        link = await endpoints.dial()
        getting = asyncio.create_task((await link.open_channel()).get("inbox"))
        counting = asyncio.create_task((await link.open_channel()).declare_queue("inbox", passive=True))
        await until(lambda: bool(services.inbox.getters and services.inbox.counting))
        assert services.inbox.getters[0].is_waiting
        await link.close()
        await until(lambda: not services.inbox.getters[0].is_waiting)
        services.inbox.waiting = [b"1"]
        services.inbox.answer(services.inbox.getters[0])
        services.inbox.counting[0](1, 0)
        await until(lambda: bool(services.inbox.settlements))
        assert services.inbox.settlements == [(None, [b"1"], Disposition.LOST)]
        assert services.inbox.waiting == [b"1"]
        result = await asyncio.gather(getting, counting, return_exceptions=True)
        assert [type(error) for error in result] == [LinkLost, LinkLost]


async def test_a_service_may_refuse_and_end_consumers() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await confirming_channel(endpoints)
        services.inbox.refusal = AccessRefused("not yours")
        with pytest.raises(AccessRefused, match="not yours"):
            await channel.consume("inbox", lambda _: None)
        services.inbox.refusal = None
        other = await endpoints.links[0].open_channel()
        deliveries: list[Delivered] = []
        ended: list[str] = []
        other.on_cancelled = ended.append
        tag = await other.consume("inbox", deliveries.extend)
        services.inbox.put(b"1")
        await until(lambda: bool(deliveries))
        (consumer,) = services.inbox.consumers
        consumer.cancel()
        await until(lambda: bool(ended))
        assert ended == [tag]
        assert services.inbox.settlements == [(tag, [b"1"], Disposition.LOST)]
        consumer.cancel()
        consumer.deliver("", "", header(b"2"), b"2", False, b"2")
        await until(lambda: len(services.inbox.settlements) == 2)
        assert services.inbox.settlements[1] == (tag, [b"2"], Disposition.LOST)


async def test_clients_cannot_change_definitions_of_the_node() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        link = await endpoints.dial()
        for act in (
            m.QueuePurge("inbox"),
            m.QueueDelete("inbox"),
            m.QueueBind("inbox", "amq.topic", "k"),
            m.ExchangeDelete("door"),
            m.ExchangeBind("door", "amq.topic", "k"),
        ):
            channel = await link.open_channel()
            with pytest.raises(AccessRefused, match="belongs to the node"):
                await channel.call(act, m.QueueDeleteOk)
        channel = await link.open_channel()
        await channel.declare_exchange("door", "x-door", durable=True)
        await channel.declare_exchange("door", "x-door", passive=True)


async def test_transactions_wait_for_services() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        channel.publish("door", "held", header(b"1"), b"1")
        channel.publish("door", "return", header(b"2"), b"2", mandatory=True)
        await channel.qos(1)
        assert services.exchange.published == []
        returned: list[bytes] = []
        channel.on_returned = lambda event: returned.append(event.body)
        commit = asyncio.ensure_future(channel.call(m.TxCommit(), m.TxCommitOk))
        await until(lambda: bool(services.exchange.waiting))
        assert not commit.done()
        services.exchange.waiting.pop()(CONFIRMED)
        await commit
        assert returned == [b"2"]
        for key, error in (("refuse", ContentTooLarge), ("nack", AmqpError), ("raise", NotFound)):
            link = await endpoints.dial()
            channel = await link.open_channel()
            await channel.call(m.TxSelect(), m.TxSelectOk)
            channel.publish("door", key, header(b"1"), b"1")
            with pytest.raises(error):
                await channel.call(m.TxCommit(), m.TxCommitOk)


async def test_hooks_get_sessions_which_a_service_can_close() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        link = await endpoints.dial(client_properties={"node": "10008"})
        (info,) = services.opened
        assert (info.user, info.vhost, info.client_properties["node"]) == ("guest", "/", "10008")
        assert info.peer.is_loopback
        info.state["mine"] = 1
        info.close(NotAllowed("replaced by a newer connection"))
        info.close(NotAllowed("again"))
        error = await link.wait_closed()
        assert isinstance(error, NotAllowed)
        await until(lambda: bool(services.closed))
        assert services.closed == [info]


async def test_a_fault_of_a_service_ends_only_the_connection_that_used_it(caplog: pytest.LogCaptureFixture) -> None:
    services = RegisteredServices()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    services.exchange.publish = broken  # type: ignore[method-assign, assignment]
    async with pair(prepare=services.prepare) as endpoints:
        neighbour, channel = await confirming_channel(endpoints), await confirming_channel(endpoints)
        with pytest.raises(AmqpError) as caught:
            await publish_and_wait(channel, "door", "now", header(b""), b"")
        assert caught.value.reply_code == 541
        assert "ZeroDivisionError" in caplog.text
        assert await publish_and_wait(neighbour, "", "none", header(b""), b"")
