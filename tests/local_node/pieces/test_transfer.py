"""Documents in pieces through three nodes; no rows must remain."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from random import Random
from typing import Any

import psycopg
import pytest

from local_node.node import LocalNode
from local_node.pieces import transfer
from local_node.pieces.transfer import attributes_of_piece
from local_node.pieces.window import UNDER_WAY_MAX
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.store.rows import Event
from semq.store.views.pieces import staged, staged_numbers, transfers
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.umx_t.envelope import Attributes
from semq.umx_t.headers import read_envelope
from semq.umx_t.pieces import PIECE_BYTES
from tests.depth import deeper
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, cut_off, linked
from tests.transport.publishing import publish_and_wait
from tests.umx_t.samples.altered import CARRIED, altered
from tests.umx_t.test_headers import PEER
from tests.waiting import until

ENVELOPE = read_envelope(PEER, {"@Sid": 1}, "56001")
# Attribute that pieces do not take over from their document | reason
LEFT_OUT = {
    "save_fwd": "pieces are of class 3, as their document is",
    "reliable": "only documents of class 1 travel as datagrams",
    "ack2": "the node itself needs the receipt of a piece",
    "fixed": "documents with an order are not sent in pieces",
    "order_key": "documents with an order are not sent in pieces",
    "app_key": "the key is left out, so that a search by key finds the document itself",
    "content_type": "the manifest has it",
    "content_encoding": "the manifest has it",
    "user_headers": "the manifest has them",
    "pieces": "a piece has its own name",
}

SIZE = 20 * PIECE_BYTES + 5  # so large that the body arrives in chunks (``BrokerLimits.spill_from``)
COUNT = deeper(10, 21)  # the number of pieces of MEDIUM
MEDIUM = (COUNT - 1) * PIECE_BYTES + 5
BELOW_PIECES = "max_document_bytes = 1000\n"  # a limit below the size of a piece
PIECES = "pieces_from_bytes = 1000000\nmax_document_bytes = 2000000\n"  # settings: documents above 1 MB are split
MANIFESTS = "SELECT count(*) FROM tb_0030 WHERE target_user = ''"


async def local(inprocess: InProcess, name: str, hub_port: int, settings: str = PIECES) -> LocalNode:
    text = LOCAL_CONFIG.format(name=name, hub=hub_port).replace("max_document_bytes = 100000\n", settings)
    return await inprocess.start_node(inprocess.settings(name, text))


async def sealing_nodes(inprocess: InProcess) -> tuple[LocalNode, LocalNode]:
    """Return two linked nodes with certificates and small pieces."""
    hub, settings = await inprocess.secure_hub(), "pieces_from_bytes = 50000\n"
    a, b = [await inprocess.secure_local(name, hub, settings) for name in ("10008", "56001")]
    await linked(a, b)
    return a, b


@lru_cache(8)
def body_of(size: int) -> bytes:
    return Random(size).randbytes(size)


async def confirming(inprocess: InProcess, node: LocalNode) -> ClientChannel:
    channel = await (await inprocess.client(node)).open_channel()
    await channel.confirm_select()
    return channel


async def published(channel: ClientChannel, target: str, body: bytes, **headers: str | int) -> bool:
    header = ContentHeader.build(len(body), Properties(headers={f"@{k}": v for k, v in headers.items()}))
    async with asyncio.timeout(60):
        return await publish_and_wait(channel, "semq", target, header, body)


class KeepingConsumer:
    """An application that keeps received documents."""

    def __init__(self, channel: ClientChannel) -> None:
        self.channel = channel
        self.received: asyncio.Queue[Delivered] = asyncio.Queue()

    @classmethod
    async def on(cls, inprocess: InProcess, node: LocalNode) -> "KeepingConsumer":
        consumer = cls(await (await inprocess.client(node)).open_channel())
        await consumer.channel.qos(1)
        await consumer.channel.consume("semq.inbox", consumer._keep)
        return consumer

    def _keep(self, batch: Sequence[Delivered]) -> None:
        for delivered in batch:
            self.received.put_nowait(delivered)

    async def next(self) -> Delivered:
        async with asyncio.timeout(60):
            return await self.received.get()


def counted(node: LocalNode, query: str) -> int:
    return counted_at(node.store.url, query)


def counted_at(url: str | None, query: str) -> int:
    assert url is not None
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def is_clean(node: LocalNode) -> bool:
    tables = ("tb_0031", "tb_0031_submit", "tb_0031_piece", "tb_0030")
    rows = " UNION ALL ".join(f"SELECT 1 FROM {table}" for table in tables)
    return not counted(node, f"SELECT count(*) FROM ({rows}) AS rows")


@pytest.fixture(scope="module")
async def pair(shared_inprocess: InProcess) -> tuple[LocalNode, LocalNode]:
    """The linked nodes 10008 and 56001; each test must receive all documents that it sends."""
    hub = await shared_inprocess.hub()
    a, b = [await local(shared_inprocess, name, hub.port) for name in ("10008", "56001")]
    await linked(a, b)
    return a, b


@pytest.mark.parametrize("size", [SIZE, 5 * PIECE_BYTES])
async def test_a_document_sent_in_pieces_arrives_and_leaves_no_rows(
    shared_inprocess: InProcess, pair: tuple[LocalNode, LocalNode], size: int
) -> None:
    a, b = pair
    body = body_of(size)
    assert await published(await confirming(shared_inprocess, a), "56001", body, AppKey="trade/film//F1")
    consumer = await KeepingConsumer.on(shared_inprocess, b)
    delivered = await consumer.next()
    assert sha256(bytes(delivered.body)).digest() == sha256(body).digest()
    headers = delivered.header.headers or {}
    assert (headers["@AppKey"], headers["@Digest"]) == ("trade/film//F1", sha256(body).hexdigest())
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))
    assert consumer.received.empty()
    consumer.channel.close()


async def test_the_pieces_of_a_sealed_document_are_sealed(inprocess: InProcess) -> None:
    a, b = await sealing_nodes(inprocess)
    assert await published(await confirming(inprocess, a), "56001", body_of(350_000), Encrypt=1)
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = '' AND app_status = 310"))
    assert counted(b, "SELECT count(*) FROM semq_inbox WHERE proved AND document IS NOT NULL") == 1
    assert counted(b, "SELECT count(*) FROM tb_0030 WHERE proved AND target_user = '_pieces'") == 4
    consumer = await KeepingConsumer.on(inprocess, b)
    delivered = await consumer.next()
    assert (delivered.header.headers or {})["@Digest"] == sha256(bytes(delivered.body)).hexdigest()
    assert bytes(delivered.body) == body_of(350_000)
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))


async def test_a_restarted_node_sends_the_remaining_pieces(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port).replace("max_document_bytes = 100000\n", PIECES)
    settings = inprocess.settings("10008", text)
    a = await inprocess.start_node(settings)
    assert await published(await confirming(inprocess, a), "56001", body_of(MEDIUM))
    await until(lambda: counted(a, "SELECT count(*) FROM tb_0031 WHERE dest_user = '_pieces'") == 4)
    await a.stop()
    assert counted_at(settings.database.dsn, "SELECT count(*) FROM tb_0031_piece") == COUNT
    restarted = await inprocess.start_node(settings)
    b = await local(inprocess, "56001", hub.port)
    consumer = await KeepingConsumer.on(inprocess, b)
    delivered = await consumer.next()
    assert bytes(delivered.body) == body_of(MEDIUM)
    # Pieces whose messages had not ended when the node stopped were not sent a second time.
    assert counted(b, f"SELECT count(*) FROM semq_ledger WHERE event = {Event.RECEIVED:d}") == COUNT + 1
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(restarted) and is_clean(b))


@pytest.mark.parametrize("at_sender", [True, False])
async def test_no_piece_is_lost_with_the_connection_to_a_store(
    shared_inprocess: InProcess, pair: tuple[LocalNode, LocalNode], at_sender: bool
) -> None:
    a, b = pair
    assert await published(await confirming(shared_inprocess, a), "56001", body_of(MEDIUM))
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030") > 2)
    loser = a if at_sender else b
    starts = loser.engine_starts
    cut_off(loser)
    await until(lambda: loser.engine_starts > starts)
    consumer = await KeepingConsumer.on(shared_inprocess, b)
    delivered = await consumer.next()
    assert bytes(delivered.body) == body_of(MEDIUM)
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))
    assert consumer.received.empty()
    consumer.channel.close()


async def test_a_document_is_delivered_again_with_all_its_pieces(
    shared_inprocess: InProcess, pair: tuple[LocalNode, LocalNode]
) -> None:
    a, _ = pair
    assert await published(await confirming(shared_inprocess, a), "10008", body_of(MEDIUM))  # to the institution itself
    first = await KeepingConsumer.on(shared_inprocess, a)
    delivered = await first.next()
    first.channel.close()  # not acknowledged
    second = await (await shared_inprocess.client(a)).open_channel()

    async def body_of_next() -> bytes | None:
        message = await second.get("semq.inbox")
        if message is None:
            return None
        second.ack(message.delivery_tag)
        return bytes(message.body)

    assert await until(body_of_next) == bytes(delivered.body) == body_of(MEDIUM)
    await until(lambda: is_clean(a))


async def test_a_document_that_ends_during_a_search_is_not_sent_again(
    shared_inprocess: InProcess, pair: tuple[LocalNode, LocalNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of its pieces that arrive after its delivery would stay at the receiver."""
    a, b = pair
    execute, may_go_on = a.store.execute, asyncio.Event()
    assert await published(await confirming(shared_inprocess, a), "56001", body_of(MEDIUM))
    await until(lambda: a.parts.transfers.documents)

    async def read_and_pause(query: Any, *arguments: Any) -> Any:
        rows = await execute(query, *arguments)
        if query is transfers:
            assert rows  # the document still waits for its pieces
            await may_go_on.wait()
        return rows

    monkeypatch.setattr(a.store, "execute", read_and_pause)
    a.parts.transfers.search()
    await until(lambda: counted(b, MANIFESTS))
    may_go_on.set()
    await until(lambda: a.parts.transfers._searching and a.parts.transfers._searching.done())
    assert a.parts.transfers.documents == set()
    consumer = await KeepingConsumer.on(shared_inprocess, b)
    consumer.channel.ack((await consumer.next()).delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))
    consumer.channel.close()


async def reason_of(link: ClientLink, key: str) -> str | None:
    shown = (await ask(link, "msg.show", {"id": key}))["result"]
    return str(shown["reason"]) if shown.get("reason") else None


def test_every_attribute_of_a_document_is_taken_over_by_its_pieces_or_left_out_for_a_reason() -> None:
    plain = attributes_of_piece(Attributes(), "name")
    taken = {
        row.field
        for row in CARRIED
        if row.is_of_document and attributes_of_piece(altered(ENVELOPE, row).attributes, "name") != plain
    }
    of_document = {row.field for row in CARRIED if row.is_of_document}
    assert sorted([*taken, *LEFT_OUT]) == sorted(of_document)


async def test_pieces_have_priority_and_expiry_of_their_document_and_are_refused_after_the_expiry(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.hub()
    a = await local(inprocess, "10008", hub.port)
    await linked(a)
    end = a.engine.core.now_ms() + 2000
    headers: dict[str, Any] = {"@ExpiresAt": end, "@AppKey": "a/b/c/K1"}
    header = ContentHeader.build(MEDIUM, Properties(headers=headers, priority=7))
    assert await publish_and_wait(await confirming(inprocess, a), "semq", "56001", header, body_of(MEDIUM))
    await until(lambda: counted(a, "SELECT count(*) FROM tb_0031 WHERE dest_user = '_pieces'") == 4)
    condition = f"priority = 7 AND expires_at = to_timestamp({end}::numeric / 1000) AND app_type = 'b' AND app_key = ''"
    assert counted(a, f"SELECT count(*) FROM tb_0031 WHERE {condition}") == 4
    await until(lambda: a.engine.core.now_ms() > end)
    b = await local(inprocess, "56001", hub.port)
    link = await inprocess.client(a)
    assert "SEMQ-1206" in await until(lambda: reason_of(link, "K1"))
    await until(lambda: not counted(a, "SELECT count(*) FROM tb_0031"))
    assert not counted(b, MANIFESTS)


async def test_a_document_that_is_cancelled_leaves_no_pieces_at_its_sender(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a = await local(inprocess, "10008", hub.port)
    await linked(a)
    assert await published(await confirming(inprocess, a), "56001", body_of(MEDIUM), AppKey="a/b/c/K1")
    link = await inprocess.client(a)
    shown = (await ask(link, "msg.show", {"id": "K1"}))["result"]
    assert shown["state"] == "IN_PIECES"
    released = await ask(link, "msg.release", {"id": "K1", "why": "now"})
    assert released["error"]["code"] == "SEMQ-1233"
    await ask(link, "msg.cancel", {"id": "K1", "why": "not wanted"})
    a.parts.transfers.search()
    await until(lambda: not a.parts.transfers.documents)
    a.parts.remains.sweep()
    await until(lambda: not counted(a, "SELECT count(*) FROM tb_0031_piece"))
    assert ((await ask(link, "msg.show", {"id": shown["lk0"]}))["result"])["outcome"] == "CANCELLED"


async def test_a_piece_that_is_refused_refuses_its_document(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port, BELOW_PIECES)
    await linked(a, b)
    assert await published(await confirming(inprocess, a), "56001", body_of(MEDIUM), AppKey="a/b/c/K1")
    link = await inprocess.client(a)
    assert "SEMQ-1231" in await until(lambda: reason_of(link, "K1"))
    assert not counted(b, MANIFESTS)


async def test_a_document_with_an_unreadable_envelope_is_refused_and_others_are_sent(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a = await local(inprocess, "10008", hub.port)
    channel = await confirming(inprocess, a)
    for key in ("K1", "K2"):
        assert await published(channel, "56001", body_of(MEDIUM), AppKey=f"a/b/c/{key}")
    await a.stop()
    with psycopg.connect(str(a.settings.database.dsn)) as connection:
        connection.execute("UPDATE tb_0031_submit SET envelope = 'x' WHERE app_key = 'a/b/c/K1'")
    restarted, b = await inprocess.start_node(a.settings), await local(inprocess, "56001", hub.port)
    await until(lambda: counted(b, MANIFESTS))
    link = await inprocess.client(restarted)
    assert "SEMQ-1223" in await until(lambda: reason_of(link, "K1"))


async def test_documents_to_a_node_that_is_away_do_not_delay_those_to_others(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "DOCUMENTS_MAX", 2)
    hub = await inprocess.hub()
    a, b, c = [await local(inprocess, name, hub.port) for name in ("10008", "56001", "88001")]
    await linked(a, b, c)
    members = '[groups.partners]\nmembers = ["56001", "88001"]\n'
    agreement = '[[agreements]]\nfrom = ["10008"]\nto = ["56001", "88001"]\n'
    answer = await ask(await inprocess.client(hub), "definitions.import", {"document": members + agreement})
    assert answer["ok"], answer
    await until(lambda: "3.partners" in a.engine.partners.groups)
    await c.stop()
    execute, pieces_read = a.store.execute, []

    async def note_piece(query: Any, *arguments: Any) -> Any:
        if query is staged:
            pieces_read.append(arguments)
        return await execute(query, *arguments)

    monkeypatch.setattr(a.store, "execute", note_piece)
    channel = await confirming(inprocess, a)
    for _ in range(3):
        assert await published(channel, "88001", body_of(MEDIUM))
    await until(lambda: counted(a, "SELECT count(*) FROM tb_0031 WHERE dest = '1.88001'") == UNDER_WAY_MAX)
    assert await published(channel, "56001", body_of(MEDIUM))
    await until(lambda: counted(b, MANIFESTS))
    assert len(a.parts.transfers.documents) == 2
    assert len(pieces_read) == UNDER_WAY_MAX + COUNT  # pieces that wait for others are not in memory


async def test_a_piece_that_is_deleted_before_it_is_read_is_passed_over(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was delivered in an earlier transfer of the document."""
    hub = await inprocess.hub()
    a, b = [await local(inprocess, name, hub.port) for name in ("10008", "56001")]
    await linked(a, b)
    execute = a.store.execute

    async def add_deleted_piece(query: Any, *arguments: Any) -> Any:
        rows = await execute(query, *arguments)
        return [*rows, COUNT] if query is staged_numbers else rows

    monkeypatch.setattr(a.store, "execute", add_deleted_piece)
    assert await published(await confirming(inprocess, a), "56001", body_of(MEDIUM))
    await until(lambda: counted(b, MANIFESTS))
