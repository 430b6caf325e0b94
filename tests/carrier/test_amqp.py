"""The carrier over SEMQ's own broker, and over RabbitMQ (tests with the parameter ``kind``).

RabbitMQ is the one of the system, if installed, or with ``--rabbitmq-root DIR`` that of Debian 13 in DIR.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from bench.rabbitmq.debian import install
from bench.rabbitmq.server import is_installed, rabbitmq
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Returned
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.amqp.methods import ExchangeDelete, ExchangeDeleteOk
from semq.carrier.amqp import AmqpCarrier
from semq.carrier.batch import pack, seal
from semq.clock import SystemClock
from semq.engine.hub.carrier import Asking, Came, Message, StoreName, Went
from semq.store.work import Work
from semq.transport.client_channel import ClientChannel
from semq.transport.dialer import DialConfig, dial
from semq.transport.turn import Turn
from tests.memory_store.store import MemoryStore
from tests.transport.pair import pair

T = TypeVar("T")
KEY = bytes(range(32))
HUB = "0f0f"
BODY_MAX = 100_000
BROKERS = ["semq", "rabbitmq"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        has_rabbitmq = is_installed() or metafunc.config.getoption("--rabbitmq-root") is not None
        metafunc.parametrize("kind", BROKERS if has_rabbitmq else BROKERS[:1])


@pytest.fixture(scope="module")
def rabbit(pytestconfig: pytest.Config) -> Iterator[int]:
    """Return the port of RabbitMQ."""
    root: Path | None = pytestconfig.getoption("--rabbitmq-root")
    if root is not None:
        root = root.absolute()
        install(root)
    with rabbitmq(root) as port:
        yield port


@asynccontextmanager
async def broker(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """Run a broker and yield its port."""
    if kind == "rabbitmq":
        yield request.getfixturevalue("rabbit")
    else:
        async with pair() as broker_pair:
            yield broker_pair.server.port


def complete(work: Work, later: bool) -> None:
    """Run one work of the store to its commit."""
    store = MemoryStore()
    store.post(work, later=later)
    store.run()


class Member:
    """An instance that notes what it receives."""

    def __init__(self, *ports: int, life: int, store: StoreName, key: bytes = KEY, hub: str = HUB) -> None:
        limits = ConnectionLimits(heartbeat=10, body_max=ANY_SIZE, arriving_max=1 << 20, stream_from=BODY_MAX + 1)
        configs = [DialConfig("127.0.0.1", port, user="guest", password="guest", limits=limits) for port in ports]
        self.carrier = AmqpCarrier(configs, hub, key, SystemClock(), Turn(), complete)
        self.messages: asyncio.Queue[tuple[int, Message]] = asyncio.Queue()
        self.returned_messages: asyncio.Queue[tuple[StoreName, Message]] = asyncio.Queue()
        self.ended_lives: asyncio.Queue[int] = asyncio.Queue()
        self.states: asyncio.Queue[str] = asyncio.Queue()
        self.numbers: list[tuple[int, int, bool]] = []  #: of arrived batches: sender, number, whether to this front
        self.life, self.store = life, store

    def is_new(self, life: int, number: int, *, to_front: bool) -> bool:
        self.numbers.append((life, number, to_front))
        return True

    def receive(self, life: int, message: Message) -> None:
        self.messages.put_nowait((life, message))

    def note_returned(self, store: StoreName, message: Message) -> None:
        self.returned_messages.put_nowait((store, message))

    def note_ended(self, life: int) -> None:
        self.ended_lives.put_nowait(life)

    def note_joined(self) -> None:
        self.states.put_nowait("joined")

    def note_cut(self) -> None:
        self.states.put_nowait("cut")

    async def join(self) -> "Member":
        self.carrier.begin(self.life, self.store, self)
        assert await within(self.states.get()) == "joined"
        return self


async def within(waiting: Awaitable[T]) -> T:
    return await asyncio.wait_for(waiting, 30)


@asynccontextmanager
async def members(*ports: int, count: int = 2) -> AsyncIterator[list[Member]]:
    async with AsyncExitStack() as stack:
        joined = []
        for number in range(1, count + 1):
            member = await Member(*ports, life=number, store=(1, number)).join()
            stack.push_async_callback(member.carrier.stop)
            joined.append(member)
        yield joined


async def test_messages_reach_stores_fronts_and_all_other_instances(kind: str, request: pytest.FixtureRequest) -> None:
    async with broker(kind, request) as port, members(port, count=3) as (first, second, third):
        first.carrier.to_store((1, 2), Went("1.a", 1))
        first.carrier.to_front(3, Went("1.b", 2))
        first.carrier.to_all(Came("1.c", 3, 0, 10, None))
        # The two queues of an instance have no order between them.
        received = [await within(second.messages.get()) for _ in range(2)]
        assert sorted(received, key=str) == [(1, Came("1.c", 3, 0, 10, None)), (1, Went("1.a", 1))]
        assert await within(third.messages.get()) == (1, Went("1.b", 2))
        assert await within(third.messages.get()) == (1, Came("1.c", 3, 0, 10, None))
        assert first.messages.empty()


async def test_a_message_without_a_queue_is_returned(kind: str, request: pytest.FixtureRequest) -> None:
    async with broker(kind, request) as port, members(port, count=1) as (first,):
        first.carrier.to_store((7, 7), Went("1.a", 1))
        first.carrier.to_front(99, Went("1.b", 2))
        assert await within(first.returned_messages.get()) == ((7, 7), Went("1.a", 1))
        assert await within(first.ended_lives.get()) == 99


async def test_one_turn_is_one_batch_for_each_queue(kind: str, request: pytest.FixtureRequest) -> None:
    async with broker(kind, request) as port, members(port) as (first, second):
        for number in range(500):
            first.carrier.to_front(2, Went("1.a", number))
        received = [await within(second.messages.get()) for _ in range(500)]
        assert received == [(1, Went("1.a", number)) for number in range(500)]
        assert (first.carrier.batches_out, second.carrier.batches_in) == (1, 1)
        first.carrier.to_store((1, 2), Went("1.a", 1))
        await within(second.messages.get())
        assert second.numbers == [(1, 1, True), (1, 2, False)]


async def test_a_store_has_one_owner_and_is_free_when_the_owner_leaves(
    kind: str, request: pytest.FixtureRequest
) -> None:
    async with broker(kind, request) as port, members(port, count=1) as (first,):
        successor = Member(port, life=2, store=(1, 1))
        successor.carrier.begin(2, (1, 1), successor)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(successor.states.get(), 1.0)
        await first.carrier.stop()
        try:
            assert await within(successor.states.get()) == "joined"
        finally:
            await successor.carrier.stop()


async def test_foreign_messages_in_the_queues_are_counted_and_dropped(
    kind: str, request: pytest.FixtureRequest
) -> None:
    async with broker(kind, request) as port, members(port) as (first, second):
        hostile = await dial(
            DialConfig("127.0.0.1", port, user="guest", password="guest"), SystemClock(), turn := Turn()
        )
        channel = await hostile.open_channel()
        forged = seal(bytes(32), "front.2", 1, 1, [pack(Asking((1, 1)))])
        elsewhere = seal(KEY, "store.1.1", 1, 1, [pack(Asking((1, 1)))])
        for body in (b"", b"nonsense", forged, elsewhere, bytes(BODY_MAX + 1)):
            for queue in ("front.2", "store.1.2"):
                header = ContentHeader.build(len(body), Properties(content_type="text/plain"))
                channel.publish("", f"semq.{HUB}.{queue}", header, body)
        turn.mark(hostile.link)
        await hostile.close()
        first.carrier.to_front(2, Went("1.a", 1))
        first.carrier.to_store((1, 2), Went("1.a", 2))
        received = [await within(second.messages.get()) for _ in range(2)]
        assert sorted(message.session for _, message in received if isinstance(message, Went)) == [1, 2]
        assert second.carrier.status().foreign == 10
        assert second.carrier.is_joined


async def test_a_removed_exchange_reaches_all_instances_again(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that publish nothing, so that they do not notice the removal."""
    monkeypatch.setattr("semq.carrier.amqp.BIND_AGAIN_S", 0.05)
    async with broker(kind, request) as port, members(port) as (first, second):
        hostile = await dial(DialConfig("127.0.0.1", port, user="guest", password="guest"), SystemClock(), Turn())
        channel = await hostile.open_channel()
        await channel.call(ExchangeDelete(exchange=f"semq.{HUB}.all"), ExchangeDeleteOk)
        await hostile.close()

        await within(until_received(first, second))
        assert second.messages.get_nowait() == (1, Went("1.a", 1))
        assert second.states.empty()


async def until_received(first: Member, second: Member) -> None:
    """Send from one instance to all until the other has a message."""
    while second.messages.empty():
        if first.carrier.is_joined:
            first.carrier.to_all(Went("1.a", 1))
        await asyncio.sleep(0.02)


async def test_an_exchange_that_ends_between_declaration_and_binding_cuts_nobody(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.carrier.amqp.BIND_AGAIN_S", 0.05)
    async with broker(kind, request) as port, members(port) as (first, second):
        declare, removed = second.carrier._declare_all, asyncio.Event()

        async def declare_and_remove(channel: ClientChannel) -> None:
            await declare(channel)
            if not removed.is_set():
                removed.set()
                await channel.call(ExchangeDelete(exchange=f"semq.{HUB}.all"), ExchangeDeleteOk)

        monkeypatch.setattr(second.carrier, "_declare_all", declare_and_remove)
        await within(removed.wait())
        await within(until_received(first, second))
        assert second.states.empty()


async def test_two_hubs_on_one_broker_get_no_messages_of_each_other() -> None:
    async with pair() as broker_pair:
        first = await Member(broker_pair.server.port, life=1, store=(1, 1)).join()
        second = await Member(broker_pair.server.port, life=2, store=(1, 1), hub="0a0a", key=bytes(32)).join()
        first.carrier.to_all(Went("1.a", 1))
        first.carrier.to_front(2, Went("1.a", 1))
        assert await within(first.ended_lives.get()) == 2
        assert second.messages.empty()
        for member in (first, second):
            await member.carrier.stop()


async def test_an_instance_whose_broker_is_gone_uses_the_next_address() -> None:
    async with AsyncExitStack() as stack:
        first_broker = await stack.enter_async_context(pair())
        second_broker = await stack.enter_async_context(pair())
        first, second = await stack.enter_async_context(members(first_broker.server.port, second_broker.server.port))
        await first_broker.server.stop(0.1)
        for member in (first, second):
            assert await within(member.states.get()) == "cut"
            assert await within(member.states.get()) == "joined"
        first.carrier.to_store((1, 2), Went("1.a", 1))
        assert await within(second.messages.get()) == (1, Went("1.a", 1))


async def test_while_the_broker_is_away_messages_to_stores_are_returned_at_once() -> None:
    async with pair() as broker_pair:
        member = await Member(broker_pair.server.port, life=1, store=(1, 1)).join()
        await broker_pair.server.stop(0.1)
        assert await within(member.states.get()) == "cut"
        member.carrier.to_store((1, 2), Went("1.a", 1))
        member.carrier.to_front(2, Went("1.a", 1))
        assert member.returned_messages.get_nowait() == ((1, 2), Went("1.a", 1))
        assert member.carrier.status().waiting_bytes == 0
        await member.carrier.stop()


async def test_the_queue_of_an_incarnation_is_deleted_when_the_next_one_begins() -> None:
    async with pair() as broker_pair, members(broker_pair.server.port) as (first, second):
        first.carrier.begin(11, (1, 1), first)
        assert await within(first.states.get()) == "joined"
        second.carrier.to_front(1, Went("1.a", 1))
        second.carrier.to_front(11, Went("1.a", 2))
        assert await within(second.ended_lives.get()) == 1
        assert await within(first.messages.get()) == (2, Went("1.a", 2))


@pytest.mark.parametrize("routing_key", ["store.1.2", "store.x.y", "front.x", "front.", ""])
async def test_a_foreign_message_that_a_broker_returns_is_counted(routing_key: str) -> None:
    async with pair() as broker_pair, members(broker_pair.server.port, count=1) as (member,):
        header = ContentHeader.build(8, Properties())
        member.carrier._report_returned(
            Returned(1, 312, "NO_ROUTE", "", f"semq.{HUB}.{routing_key}", header, b"nonsense")
        )
        assert member.carrier.status().foreign == 1
        assert member.carrier.is_joined
