"""Large bodies from an application: refusals before the body arrives, and the removal of incomplete bodies."""

import asyncio

import psycopg
import pytest

from local_node.node import LocalNode
from local_node.pieces import upload
from semq.amqp import errors as amqp
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.store.rows import Event
from tests.local_node.pieces.test_transfer import (
    SIZE,
    body_of,
    confirming,
    counted,
    local,
    published,
)
from tests.service.inprocess import InProcess, ask, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


@pytest.fixture(scope="module")
async def node(shared_inprocess: InProcess) -> LocalNode:
    """A linked node shared by the tests of this file, which leave no pieces at it."""
    hub = await shared_inprocess.hub()
    node = await local(shared_inprocess, "10008", hub.port)
    await linked(node)
    return node


def piece_count(node: LocalNode) -> int:
    return counted(node, "SELECT count(*) FROM tb_0031_piece")


@pytest.mark.parametrize(
    ("target", "headers", "code"),
    [
        ("56001", {"SaveFwd": 1}, "SEMQ-1203"),
        ("56001", {"SaveFwd": 2}, "SEMQ-1203"),
        ("56001", {"NotBefore": 32_000_000_000_000}, "SEMQ-1203"),
        ("56001", {"ExpiresAt": 10**11}, "SEMQ-1206"),
        ("56001", {"OrderKey": "k"}, "SEMQ-1203"),
        ("56001", {"Fixed": 1}, "SEMQ-1203"),
        ("56001", {"SaveFwd": 9}, "SEMQ-1102"),
        ("56001/_pieces", {}, "SEMQ-1101"),
        ("56001", {"Pieces": "1.10008.1.1.ab.1/0"}, "SEMQ-1102"),
        ("99999", {}, "SEMQ-1201"),
        ("3.retailers", {}, "SEMQ-1203"),
        ("4.56001", {}, "SEMQ-1203"),
    ],
)
async def test_documents_that_cannot_be_split_are_refused_before_the_body(
    shared_inprocess: InProcess, node: LocalNode, target: str, headers: dict[str, str | int], code: str
) -> None:
    channel = await confirming(shared_inprocess, node)
    with pytest.raises(amqp.AmqpError) as refused:
        await published(channel, target, body_of(SIZE), **headers)
    assert code in str(refused.value)
    assert not piece_count(node)


# headers | where the accepted document is found by its size
SENT_WHOLE: list[tuple[dict[str, str | int], str]] = [
    ({"SaveFwd": 1}, f"semq_ledger WHERE event = {Event.ACCEPTED:d} AND size"),
    ({"SaveFwd": 2}, "tb_0031 WHERE save_fwd = 2 AND size"),
    ({"OrderKey": "k"}, "tb_0031 WHERE order_key = 'k' AND size"),
    ({"Fixed": 1}, "tb_0031 WHERE order_key <> '' AND size"),
    ({"NotBefore": 32_000_000_000_000}, "tb_0031_submit WHERE octet_length(payload)"),
]


async def test_documents_that_cannot_be_split_are_sent_as_one_message_up_to_the_limit_of_messages(
    inprocess: InProcess,
) -> None:
    a = await local(inprocess, "10008", 1)  # no hub: the messages wait
    channel = await confirming(inprocess, a)
    for size, (headers, where) in enumerate(SENT_WHOLE, 1_500_000):
        assert await published(channel, "56001", body_of(size), **headers)
        assert not piece_count(a)
        assert counted(a, f"SELECT count(*) FROM {where} = {size}") == 1, headers


async def test_a_body_above_the_largest_size_is_refused(inprocess: InProcess) -> None:
    a = await local(inprocess, "10008", 1, "max_document_bytes = 1000\nmax_large_document_bytes = 900\n")
    channel = await confirming(inprocess, a)
    with pytest.raises(amqp.ContentTooLarge):
        await published(channel, "56001", bytes(1001))


async def test_an_incomplete_body_leaves_no_pieces(shared_inprocess: InProcess, node: LocalNode) -> None:
    link = await shared_inprocess.client(node)
    channel = await link.open_channel()
    header = ContentHeader.build(SIZE, Properties())
    link.machine.start_content(channel.number, m.BasicPublish("semq", "56001"), header)
    link.machine.send_chunk(channel.number, body_of(SIZE - 10))
    link.link.request_write()
    await until(lambda: piece_count(node) == 19)
    link.link.abort()
    await until(lambda: not piece_count(node))
    assert not counted(node, "SELECT count(*) FROM tb_0031_submit")


async def test_pieces_without_an_arriving_body_are_removed(node: LocalNode) -> None:
    body = node.parts.uploads.begin(SIZE, lambda is_paused: None)
    body.add(body_of(SIZE - 10))
    await until(lambda: piece_count(node) == 19)
    node.parts.remains.sweep()
    await node.store.execute(lambda connection: None)
    assert piece_count(node) == 19  # the body is still arriving
    del body

    def is_gone() -> bool:
        node.parts.remains.sweep()  # repeated, because an earlier search may be under way
        return not piece_count(node)

    await until(is_gone)


async def test_remaining_pieces_are_deleted_in_portions(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit that deletes all pieces would delay other documents."""
    monkeypatch.setattr(upload, "PORTION", 4)
    with psycopg.connect(node.store.url) as connection:
        connection.execute(
            """
            CREATE TABLE portions (size bigint);
            CREATE FUNCTION count_deleted() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO portions SELECT count(*) FROM gone HAVING count(*) > 0; RETURN NULL; END';
            CREATE TRIGGER deleted AFTER DELETE ON tb_0031_piece REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION count_deleted();
            INSERT INTO tb_0031_piece (document, number, payload) SELECT 7, n, 'x' FROM generate_series(0, 9) AS n
            """
        )
    node.parts.remains.sweep()
    await until(lambda: not piece_count(node))
    with psycopg.connect(node.store.url) as connection:
        deleted = connection.execute("SELECT size FROM portions").fetchall()
        connection.execute("DROP TRIGGER deleted ON tb_0031_piece; DROP TABLE portions")
    assert deleted == [(4,), (4,), (2,)]


async def test_a_repeat_with_the_same_token_is_not_accepted_as_a_second_document(inprocess: InProcess) -> None:
    a = await local(inprocess, "10008", 1)  # no hub: the pieces wait
    channel = await confirming(inprocess, a)
    for _ in range(2):
        assert await published(channel, "56001", body_of(SIZE), Token="T1")
    await until(lambda: piece_count(a) <= 21)
    assert counted(a, "SELECT count(*) FROM tb_0031_submit") == 1
    other_channel = await confirming(inprocess, a)
    with pytest.raises(amqp.PreconditionFailed) as refused:
        await published(other_channel, "56001", body_of(SIZE - 1), Token="T1")
    assert "SEMQ-1205" in str(refused.value)
    await until(lambda: piece_count(a) <= 21)


async def test_the_channel_stays_open_if_an_answer_was_requested(shared_inprocess: InProcess, node: LocalNode) -> None:
    link = await shared_inprocess.client(node)
    channel = await link.open_channel()
    await channel.confirm_select()
    queue = (await channel.declare_queue(exclusive=True)).queue
    header = ContentHeader.build(SIZE, Properties(reply_to=queue, headers={"@SaveFwd": 2}))
    async with asyncio.timeout(60):
        assert not await publish_and_wait(channel, "semq", "56001", header, body_of(SIZE))
        reply = await channel.get(queue, no_ack=True)
    assert reply is not None
    assert b"SEMQ-1203" in bytes(reply.body)
    assert channel.is_open
    assert (await ask(link, "node.status", {}))["ok"]
