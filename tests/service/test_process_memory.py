"""Bodies of documents leave memory with their last use, without the garbage collector.

Nodes collect garbage rarely (``semq.service.process.COLLECTOR_THRESHOLDS``), so a body in a cycle of references would
stay in memory for long. Each test sends documents on one path with the collector switched off, and then lists the
objects that only the collector would free.
"""

import asyncio
import gc
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import FrameType

import psycopg
import pytest

from local_node.node import LocalNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.errors import BadInput
from semq.store.rows import Event, LedgerLine, Side
from semq.store.unit import Needs
from semq.store.work import COMMITTED, Steps, work
from semq.transport.client_channel import ClientChannel
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import InProcess, ask, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

MARK = b"a body that must not stay "
BODY = MARK * 1000
MANY = 8


class BodiesKept(AssertionError):
    """Some bodies stay in memory until the garbage collector runs."""


@contextmanager
def no_body_in_a_cycle(case: object = "") -> Iterator[None]:
    """Raise BodiesKept if a cycle of objects keeps the body of a document that was used within the block."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        holders = [_described(value) for value in gc.garbage if any(map(_is_body, gc.get_referents(value)))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    if holders:
        raise BodiesKept(f"{case} {len(holders)} references to bodies, by: " + "; ".join(sorted(set(holders))))


def _is_body(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview) and MARK in bytes(value)


def _described(holder: object) -> str:
    if isinstance(holder, FrameType):
        return f"frame of {holder.f_code.co_qualname}"
    names = holder.keys() if isinstance(holder, dict) else getattr(holder, "__slots__", ())
    return f"{type(holder).__qualname__}({', '.join(map(str, names))})"


@pytest.fixture(autouse=True)
def older_objects_frozen() -> Iterator[None]:
    """Exclude older objects from collections, to save time."""
    gc.freeze()
    yield
    gc.unfreeze()


class Holder:
    def __init__(self) -> None:
        self.body = bytes(BODY)


class Ring(Holder):
    def __init__(self) -> None:
        super().__init__()
        self.cycle = lambda: self.body


def test_a_body_in_a_cycle_is_found() -> None:
    with no_body_in_a_cycle():
        Holder()
    with pytest.raises(BodiesKept), no_body_in_a_cycle():
        Ring()


@pytest.fixture(scope="module")
async def nodes(shared_inprocess: InProcess) -> tuple[LocalNode, LocalNode]:
    hub = await shared_inprocess.hub()
    a, b = await shared_inprocess.local("10008", hub.port), await shared_inprocess.local("56001", hub.port)
    await linked(a, b)
    return a, b


@asynccontextmanager
async def consuming(
    inprocess: InProcess, node: LocalNode, settle: Callable[[ClientChannel, Delivered], None]
) -> AsyncIterator[Callable[[], int]]:
    """Run an application that settles its documents; yield the function that returns their number."""
    link = await inprocess.client(node)
    channel = await link.open_channel()
    received = 0

    def on_documents(batch: list[Delivered]) -> None:
        nonlocal received
        for delivered in batch:
            settle(channel, delivered)
        received += len(batch)

    await channel.qos(100)
    await channel.consume("semq.inbox", on_documents)
    try:
        yield lambda: received
    finally:
        await link.close()  # else it would take the documents of the next test


def acknowledge(channel: ClientChannel, delivered: Delivered) -> None:
    channel.ack(delivered.delivery_tag)


def requeue_once(channel: ClientChannel, delivered: Delivered) -> None:
    if delivered.redelivered:
        channel.ack(delivered.delivery_tag)
    else:
        channel.nack(delivered.delivery_tag, requeue=True)


def is_clean(*nodes: LocalNode) -> bool:
    return not any(_rows(node.store.url) for node in nodes)


def _rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT (SELECT count(*) FROM tb_0031) + (SELECT count(*) FROM tb_0030)").fetchone()
        assert row is not None
        return int(row[0])


async def submit_with_confirm(inprocess: InProcess, node: LocalNode) -> None:
    channel = await confirming(await inprocess.client(node))
    for _ in range(MANY):
        assert await publish(channel, "56001", BODY)


async def submit_with_reply(inprocess: InProcess, node: LocalNode) -> None:
    channel = await confirming(await inprocess.client(node))
    queue = (await channel.declare_queue(exclusive=True)).queue
    header = ContentHeader.build(len(BODY), Properties(reply_to=queue, correlation_id="1"))
    for _ in range(MANY):
        assert await publish_and_wait(channel, "semq", "56001", header, BODY)


async def submit_as_administrator(inprocess: InProcess, node: LocalNode) -> None:
    link = await inprocess.client(node)
    for _ in range(MANY):
        document = {"target": "56001", "body_base64": b64encode(BODY).decode()}
        assert (await ask(link, "msg.submit", document))["ok"]


async def submit_by_sql(inprocess: InProcess, node: LocalNode) -> None:
    with psycopg.connect(node.store.url) as connection:
        for _ in range(MANY):
            connection.execute("INSERT INTO tb_0031_submit (target, payload) VALUES ('56001', %s)", (BODY,))


async def submit_twice(inprocess: InProcess, node: LocalNode) -> None:
    channel = await confirming(await inprocess.client(node))
    for number in range(MANY):
        for _ in range(2):
            assert await publish(channel, "56001", BODY, Token=f"token {number}")


async def test_no_body_of_a_delivered_document_is_kept(
    shared_inprocess: InProcess, nodes: tuple[LocalNode, LocalNode]
) -> None:
    async with consuming(shared_inprocess, nodes[1], acknowledge) as received:
        ways = (submit_with_confirm, submit_with_reply, submit_as_administrator, submit_by_sql, submit_twice)
        for round_, submit in enumerate(ways, 1):
            with no_body_in_a_cycle(submit):
                await submit(shared_inprocess, nodes[0])
                await until(lambda goal=MANY * round_: received() == goal and is_clean(*nodes))  # type: ignore[misc]


REFUSED: list[tuple[str, dict[str, str | int]]] = [
    ("77777", {}),
    ("88001", {"@Token": "t"}),
    ("56001", {"@ExpiresAt": 10**11}),
    ("no address", {}),
]


async def submit_refused_by_channel_close(inprocess: InProcess, node: LocalNode) -> None:
    link = await inprocess.client(node)
    for target, headers in REFUSED:
        channel, ended = await confirming(link), asyncio.Event()
        channel.on_closed = lambda _, ended=ended: ended.set()  # type: ignore[misc]
        channel.publish("semq", target, ContentHeader.build(len(BODY), Properties(headers=headers)), BODY)
        async with asyncio.timeout(60):
            await ended.wait()


async def submit_refused_by_reply(inprocess: InProcess, node: LocalNode) -> None:
    channel = await confirming(await inprocess.client(node))
    queue = (await channel.declare_queue(exclusive=True)).queue
    for target, headers in REFUSED:
        properties = Properties(headers=headers, reply_to=queue, correlation_id="1")
        assert not await publish_and_wait(channel, "semq", target, ContentHeader.build(len(BODY), properties), BODY)


async def test_no_body_of_a_refused_document_is_kept(
    shared_inprocess: InProcess, nodes: tuple[LocalNode, LocalNode]
) -> None:
    for submit in (submit_refused_by_channel_close, submit_refused_by_reply):
        with no_body_in_a_cycle(submit):
            await submit(shared_inprocess, nodes[0])


async def test_no_body_of_a_requeued_document_is_kept(
    shared_inprocess: InProcess, nodes: tuple[LocalNode, LocalNode]
) -> None:
    async with consuming(shared_inprocess, nodes[1], requeue_once) as received:
        with no_body_in_a_cycle():
            await submit_with_confirm(shared_inprocess, nodes[0])
            await until(lambda: received() == 2 * MANY and is_clean(*nodes))


async def test_no_body_of_a_polled_document_is_kept(
    shared_inprocess: InProcess, nodes: tuple[LocalNode, LocalNode]
) -> None:
    link = await shared_inprocess.client(nodes[1])
    with no_body_in_a_cycle():
        await submit_with_confirm(shared_inprocess, nodes[0])
        channel, received = await link.open_channel(), 0

        async def poll() -> bool:
            nonlocal received
            while (delivered := await channel.get("semq.inbox")) is not None:
                channel.ack(delivered.delivery_tag)
                received += 1
                del delivered
            return received == MANY

        await until(poll)
        await until(lambda: is_clean(*nodes))


async def test_no_body_of_a_document_stored_at_the_hub_is_kept(inprocess: InProcess) -> None:
    hub, a = await inprocess.linked_pair()
    with no_body_in_a_cycle():
        await submit_with_confirm(inprocess, a)
        await until(lambda: _rows(hub.store.url) == MANY)
        b = await inprocess.local("56001", hub.port)
        async with consuming(inprocess, b, acknowledge) as received:
            await until(lambda: received() == MANY and is_clean(a, b) and not _rows(hub.store.url))


async def test_no_body_of_a_sealed_document_is_kept(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    await until(lambda: a.sealing is not None and a.sealing.keys.receiver("1.56001") is not None)
    async with consuming(inprocess, b, acknowledge) as received:
        channel = await confirming(await inprocess.client(a))
        with no_body_in_a_cycle():
            for _ in range(MANY):
                assert await publish(channel, "56001", BODY, Encrypt=1)
            await until(lambda: received() == MANY and is_clean(a, b))


async def test_no_body_is_kept_when_links_are_lost(
    shared_inprocess: InProcess, nodes: tuple[LocalNode, LocalNode]
) -> None:
    async with consuming(shared_inprocess, nodes[1], acknowledge) as received:
        with no_body_in_a_cycle():
            link = await shared_inprocess.client(nodes[0])
            channel = await confirming(link)
            header = ContentHeader.build(len(BODY), Properties())
            for _ in range(MANY):
                channel.publish("semq", "56001", header, BODY)
            await asyncio.gather(*(node.parts.hub.restart() for node in nodes))
            await until(lambda: received() >= MANY and is_clean(*nodes))


def _settle(settled: asyncio.Event, error: Exception) -> None:
    settled.set()


@work
def refused(in_postgres: bool, body: bytes) -> Steps:
    """Return work that holds a body and is refused, by itself or by Postgres."""
    unit = yield Needs()
    if not in_postgres:
        raise BadInput("Refused by the test.", size=len(body))
    unit.ledger.append(LedgerLine(0, Side.SENDER, Event.SENT, "\0", "", 0))
    yield COMMITTED
    raise AssertionError("refused work was committed")


async def test_no_body_of_work_that_the_store_refuses_is_kept(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    for in_postgres in (False, True):
        with no_body_in_a_cycle(f"{in_postgres=}"):
            for _ in range(MANY):
                settled = asyncio.Event()
                node.engine.core.post(refused(in_postgres, bytes(bytearray(BODY))), failed=partial(_settle, settled))
                async with asyncio.timeout(60):
                    await settled.wait()
