"""Transactions of a channel that mix queues of the application, its inbox and documents: all of it, or nothing."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from local_node.node import LocalNode
from semq.amqp import errors as amqp
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.transport.client_channel import ClientChannel
from semq.umx_t.status import AppStatus
from tests.local_node.doors.test_inbox import app_statuses, poll
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

Contents = tuple[list[bytes], ...]
PERSISTENT = ContentHeader.build(1, Properties(delivery_mode=2))


def document(body: bytes, **headers: Any) -> ContentHeader:
    return ContentHeader.build(len(body), Properties(headers=headers))


@pytest.fixture
async def node(inprocess: InProcess) -> LocalNode:
    _, node = await inprocess.linked_pair()
    return node


class Mixed:
    """A node with a document in its inbox and a message in each of two queues, and a channel that has opened a
    transaction and takes all three.
    """

    def __init__(self, inprocess: InProcess, node: LocalNode) -> None:
        self.inprocess = inprocess
        self.node = node
        self.tags: list[int] = []
        self.channel: ClientChannel

    @classmethod
    async def open(cls, inprocess: InProcess, node: LocalNode) -> "Mixed":
        mixed = cls(inprocess, node)
        channel = await confirming(await inprocess.client(node))
        for queue in ("in", "out", "full"):
            arguments = {"x-max-length": 1, "x-overflow": "reject-publish"} if queue == "full" else {}
            await channel.declare_queue(queue, durable=True, arguments=arguments)
        assert await publish_and_wait(channel, "", "in", PERSISTENT, b"m")
        assert await publish(channel, "10008", b"first", Token="t-used")
        await mixed.select()
        return mixed

    async def select(self) -> None:
        self.channel = await (await self.inprocess.client(self.node)).open_channel()
        await self.channel.call(m.TxSelect(), m.TxSelectOk)
        for queue in ("semq.inbox", "in"):
            message = await until(partial(poll, self.channel, queue))
            self.channel.ack(message.delivery_tag)
        self.channel.publish("", "out", PERSISTENT, b"o")
        self.channel.publish("semq", "10008", document(b"second"), b"second")

    async def commit(self) -> None:
        async with asyncio.timeout(60):
            await self.channel.call(m.TxCommit(), m.TxCommitOk)

    async def contents(self) -> Contents:
        """Return the bodies in the queues and in the inbox."""
        channel = await (await self.inprocess.client(self.node)).open_channel()
        found: Contents = ()
        for queue in ("in", "out", "full", "semq.inbox"):
            bodies: list[bytes] = []
            while (message := await poll(channel, queue)) is not None:
                bodies.append(bytes(message.body))
            found += (bodies,)
        channel.close()
        return found


BEFORE: Contents = ([b"m"], [], [], [b"first"])
AFTER: Contents = ([], [b"o"], [], [b"second"])

# What makes the commit fail: additions to the transaction | the error
FAULTS: dict[str, tuple[Callable[[ClientChannel], object], type[amqp.AmqpError]]] = {
    "unknown target": (
        lambda channel: channel.publish("semq", "77777", document(b"x"), b"x"), amqp.NotFound,
    ),
    "used token": (
        lambda channel: channel.publish("semq", "10008", document(b"other", **{"@Token": "t-used"}), b"other"),
        amqp.PreconditionFailed,
    ),
    "used token of a scheduled document": (
        lambda channel: channel.publish(
            "semq", "10008", document(b"other", **{"@Token": "t-used", "@NotBefore": 1 << 42}), b"other"
        ),
        amqp.PreconditionFailed,
    ),
    "full queue": (
        lambda channel: [channel.publish("", "full", PERSISTENT, b"x") for _ in range(2)],
        amqp.PreconditionFailed,
    ),
}  # fmt: skip


async def test_a_mixed_transaction_takes_effect_at_once_also_after_a_restart(
    inprocess: InProcess, node: LocalNode
) -> None:
    mixed = await Mixed.open(inprocess, node)
    await mixed.commit()
    await until(lambda: app_statuses(node) == [AppStatus.NEW])
    settings = node.settings
    await node.stop()
    mixed.node = await inprocess.start_node(settings)
    await linked(mixed.node)
    assert await mixed.contents() == AFTER


async def test_a_rolled_back_or_lost_transaction_has_no_effect(inprocess: InProcess, node: LocalNode) -> None:
    mixed = await Mixed.open(inprocess, node)
    await mixed.channel.call(m.TxRollback(), m.TxRollbackOk)
    mixed.channel.close()
    assert await mixed.contents() == BEFORE
    await mixed.select()
    mixed.channel._link.abort()
    await until(lambda: not node.engine.handover.out)
    assert await mixed.contents() == BEFORE


async def test_nothing_of_a_mixed_transaction_takes_effect_if_a_part_is_refused(
    inprocess: InProcess, node: LocalNode
) -> None:
    mixed = await Mixed.open(inprocess, node)
    for name, (add, error) in FAULTS.items():
        add(mixed.channel)
        with pytest.raises(error):
            await mixed.commit()
        await until(lambda: not node.engine.handover.out)
        assert (name, await mixed.contents()) == (name, BEFORE)
        await mixed.select()
    await mixed.commit()
    assert await mixed.contents() == AFTER


async def test_several_documents_acknowledged_in_a_refused_transaction_stay_in_the_inbox(
    inprocess: InProcess, node: LocalNode
) -> None:
    sender = await confirming(await inprocess.client(node))
    bodies = [b"a", b"b", b"c"]
    for body in bodies:
        assert await publish(sender, "10008", body, Token=f"t-{body.decode()}")
    channel = await (await inprocess.client(node)).open_channel()
    await channel.call(m.TxSelect(), m.TxSelectOk)
    tags = [(await until(partial(poll, channel, "semq.inbox"))).delivery_tag for _ in bodies]
    channel.ack(tags[-1], multiple=True)
    channel.publish("semq", "10008", document(b"other", **{"@Token": "t-a"}), b"other")
    with pytest.raises(amqp.PreconditionFailed):
        await channel.call(m.TxCommit(), m.TxCommitOk)
    await until(lambda: not node.engine.handover.out)
    reader = await (await inprocess.client(node)).open_channel()
    assert sorted([bytes((await until(partial(poll, reader, "semq.inbox"))).body) for _ in bodies]) == bodies


async def test_a_request_to_the_node_cannot_be_part_of_a_transaction(inprocess: InProcess, node: LocalNode) -> None:
    request = ContentHeader.build(2, Properties(reply_to="x"))
    channel = await (await inprocess.client(node)).open_channel()
    await channel.call(m.TxSelect(), m.TxSelectOk)
    channel.publish("semq.admin", "node.status", request, b"{}")
    with pytest.raises(amqp.PreconditionFailed, match="cannot be part of a transaction"):
        await channel.call(m.TxCommit(), m.TxCommitOk)


@pytest.mark.parametrize("size", [2000, 5 << 20])
async def test_a_document_in_pieces_cannot_be_part_of_a_transaction(inprocess: InProcess, size: int) -> None:
    """A large body is stored while it arrives, a smaller one is cut into pieces at the commit."""
    hub = await inprocess.hub()
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port) + "pieces_from_bytes = 1000\n"
    node = await inprocess.start_node(inprocess.settings("10008", text))
    await linked(node)
    channel = await (await inprocess.client(node)).open_channel()
    await channel.call(m.TxSelect(), m.TxSelectOk)
    channel.publish("semq", "10008", document(bytes(size)), bytes(size))
    with pytest.raises(amqp.PreconditionFailed, match="documents in pieces"):
        await channel.call(m.TxCommit(), m.TxCommitOk)


async def test_the_parts_of_a_mixed_transaction_are_written_in_one_transaction_of_the_database(
    inprocess: InProcess, node: LocalNode
) -> None:
    mixed = await Mixed.open(inprocess, node)
    mixed.channel.publish("semq", "10008", document(b"later", **{"@NotBefore": 1 << 42}), b"later")
    await mixed.commit()
    with psycopg.connect(node.store.url) as connection:
        rows = [
            connection.execute(f"SELECT xmin::text FROM {table}").fetchall()
            for table in ("broker_message", "tb_0031_submit")
        ]
    assert rows[0] == rows[1] != []
