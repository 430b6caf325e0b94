"""Pieces at a receiver's node: bounds for each source, and deletion."""

from collections import Counter

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as changed

from local_node.node import LocalNode
from semq.config import load
from semq.engine.receiver.pieces import COUNTED_MIN, PieceStock
from semq.engine.time import cleanup
from semq.store.rows import StoredPiece
from semq.transport.client_channel import ClientChannel
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Data
from semq.umx_t.pieces import PIECE_BYTES, PIECES_USER
from semq.umx_t.status import Arrival
from tests.flows.trio import SETTINGS, Trio
from tests.local_node.pieces.test_transfer import (
    PIECES,
    SIZE,
    KeepingConsumer,
    body_of,
    confirming,
    counted,
    counted_at,
    is_clean,
    local,
    published,
)
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until

STORED = "SELECT coalesce(sum(size), 0) FROM tb_0030 WHERE target_user = '_pieces'"
MANIFESTS = "SELECT count(*) FROM tb_0030 WHERE target_user = '' AND status = 410 AND app_status = 310"
MEDIUM = 8 * PIECE_BYTES + 5  # bytes of a document in pieces
QUOTA = MEDIUM + 100_000


async def refusal(inprocess: InProcess, node: LocalNode, key: str) -> str:
    """Wait until a document is refused; return the error that its sender's node lists."""
    link = await inprocess.client(node)

    async def reason() -> str | None:
        rows = (await ask(link, "failed.list", {}))["result"]["rows"]
        return next((str(row["error"]) for row in rows if row["app_key"].endswith(f"/{key}")), None)

    return str(await until(reason))


async def send_document(channel: ClientChannel, key: str, size: int = MEDIUM) -> None:
    assert await published(channel, "56001", body_of(size), AppKey=f"a/b/c/{key}")


async def test_only_the_document_whose_pieces_exceed_the_quota_is_refused(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    config = PIECES + f"quota_piece_bytes_per_partner = {QUOTA}\n"
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port, config)
    await linked(a, b)
    channel = await confirming(inprocess, a)
    await send_document(channel, "K1")
    await until(lambda: counted(b, MANIFESTS) == 1)
    await send_document(channel, "K2")
    assert "SEMQ-1234" in await refusal(inprocess, a, "K2")
    assert counted(b, STORED) <= QUOTA
    await send_document(channel, "K3", 500)  # one message
    await until(lambda: counted(b, MANIFESTS) == 2)
    assert await published(await confirming(inprocess, b), "56001", body_of(MEDIUM), AppKey="a/b/c/K4")
    await until(lambda: counted(b, MANIFESTS) == 3)  # another source has its own quota
    consumer = await KeepingConsumer.on(inprocess, b)
    for _ in range(3):
        consumer.channel.ack((await consumer.next()).delivery_tag)
    await until(lambda: not counted(b, MANIFESTS) and counted(b, STORED) < MEDIUM // 2)


def test_small_pieces_that_arrive_together_count_their_minimum() -> None:
    trio = Trio(replace(SETTINGS, quota_piece_bytes_per_partner=3 * COUNTED_MIN))
    messages = trio.send_and_catch(*[b"x"] * 5)
    trio.b.receive(*(as_piece(message, number) for number, message in enumerate(messages)))
    assert Counter(row.status for row in trio.b.store.tables.pending.values()) == {Arrival.RECV: 3, Arrival.REJ: 2}


def as_piece(message: Data, number: int) -> Data:
    envelope = message.envelope
    attributes = changed(envelope.attributes, pieces=f"K/{number}")
    target = parse_address(f"56001/{PIECES_USER}")
    return changed(message, envelope=changed(envelope, target=target, attributes=attributes))


def test_pieces_are_either_claimed_by_their_manifest_or_given_up() -> None:
    """Each work has looked for the other in the store before, and may have missed it."""
    stock = PieceStock(StoredPiece(bref, "1.10008", 5) for bref in range(1, 6))
    assert stock.claim([1, 2])
    assert stock.give_up([1, 2, 3]) == [3]
    assert not stock.claim([3, 4])  # about to be removed
    assert stock.give_up([4]) == [4]
    assert not stock.claim([6])  # removed
    assert stock.claim([5])


async def test_the_quota_counts_pieces_stored_before_a_start(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    settings = inprocess.settings(
        "56001", LOCAL_CONFIG.format(name="56001", hub=hub.port).replace("max_document_bytes = 100000\n", PIECES)
    )
    a, b = await local(inprocess, "10008", hub.port), await inprocess.start_node(settings)
    await linked(a, b)
    await send_document(await confirming(inprocess, a), "K1")
    await until(lambda: counted(b, MANIFESTS))
    held = b.engine.core.pieces.of("1.10008")
    assert held >= MEDIUM
    await b.stop()
    assert (await inprocess.start_node(settings)).engine.core.pieces.of("1.10008") == held


async def test_a_document_larger_than_its_receiver_accepts_is_refused_until_the_limit_is_raised(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.hub()
    limit = "max_large_document_bytes = 1200000\n"
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port, PIECES + limit)
    await linked(a, b)
    await send_document(await confirming(inprocess, a), "K1")
    assert "SEMQ-1203" in await refusal(inprocess, a, "K1")
    assert not counted(b, MANIFESTS)
    assert counted(b, STORED) <= 1_500_000

    await b.stop()
    file = inprocess.folder / "56001.toml"
    file.write_text(file.read_text("utf-8").replace(limit, ""), "utf-8")
    b = await inprocess.start_node(load(file, {}))
    admin = await inprocess.client(a)
    (row,) = (await ask(admin, "failed.list", {}))["result"]["rows"]
    assert (await ask(admin, "failed.requeue", {"ids": [row["lk0"]]}))["ok"]
    consumer = await KeepingConsumer.on(inprocess, b)
    delivered = await consumer.next()
    assert bytes(delivered.body) == body_of(MEDIUM)
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))


async def test_the_pieces_of_a_refused_manifest_are_deleted(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    config = PIECES + f"max_large_document_bytes = {MEDIUM - 1}\n"
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port, config)
    await linked(a, b)
    await send_document(await confirming(inprocess, a), "K1")
    assert "SEMQ-1203" in await refusal(inprocess, a, "K1")
    await until(lambda: b.engine.core.pieces.notices)
    assert counted(b, STORED) == MEDIUM
    b.parts.remains.sweep()
    await until(lambda: is_clean(b))
    assert not b.engine.core.pieces.of("1.10008")


async def test_the_pieces_of_a_document_are_deleted_in_portions_also_after_a_restart(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit that deletes all pieces would delay other documents for seconds."""
    monkeypatch.setattr(cleanup, "PIECES_BYTES", 3 * PIECE_BYTES)
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    await send_document(await confirming(inprocess, a), "K1", SIZE)
    consumer = await KeepingConsumer.on(inprocess, b)
    delivered = await consumer.next()
    kept = "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces' AND app_status = 320"
    consumer.channel.ack(delivered.delivery_tag)
    await until(lambda: 0 < counted(b, kept) < 19)
    assert not b.engine.core.pieces.of("1.10008")  # pieces that have ended do not count
    await b.stop()
    assert counted_at(b.store.url, kept) in (3, 6, 9, 12, 15, 18)
    b = await inprocess.start_node(load(inprocess.folder / "56001.toml", {}))
    await until(lambda: is_clean(a) and is_clean(b))
    assert not b.engine.core.pieces.of("1.10008")
