"""A definition that Postgres refuses does not exist in memory either, so nothing confirmed depends on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import NamedTuple

import psycopg
import pytest

from local_node.node import LocalNode
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, NotFound
from semq.transport.client_channel import ClientChannel
from tests.service.inprocess import InProcess
from tests.store.postgres.refusals.test_refusals import Refusing, refusals_in_health, refusing
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

WORDS = "no such row here"  # of the trigger that ``refusing`` installs
BODY = b"order"
_rounds = count(1)


class Definition(NamedTuple):
    """A kind of definition. ``make`` and ``delete`` do it on a channel, under a name."""

    table: str
    is_bad: str  #: SQL condition about the row
    make: Callable[[ClientChannel, str], Awaitable[object]]
    delete: Callable[[ClientChannel, str], Awaitable[object]]
    #: Exchange and routing key of a message that needs the definition
    address: Callable[[str], tuple[str, str]]


async def _bind(channel: ClientChannel, name: str) -> None:
    await channel.declare_queue(name, durable=True)
    await channel.bind_queue(name, "amq.direct", name)


async def _declare_delayed(channel: ClientChannel, name: str) -> None:
    await channel.declare_queue(name, durable=True)
    arguments = {"x-delayed-type": "fanout"}
    await channel.declare_exchange(name, "x-delayed-message", durable=True, arguments=arguments)
    await channel.bind_queue(name, name)


async def _declare_exchange(channel: ClientChannel, name: str) -> None:
    await channel.declare_queue(name, durable=True)
    await channel.declare_exchange(name, "fanout", durable=True)
    await channel.bind_queue(name, name)


async def _delete_exchange(channel: ClientChannel, name: str) -> None:
    await channel.call(m.ExchangeDelete(exchange=name), m.ExchangeDeleteOk)


DEFINITIONS = {
    "queue": Definition(
        "broker_queue", "{row}.name = '{{key}}'",
        lambda channel, name: channel.declare_queue(name, durable=True),
        lambda channel, name: channel.call(m.QueueDelete(queue=name), m.QueueDeleteOk),
        lambda name: ("", name),
    ),
    "exchange": Definition(
        "broker_exchange", "{row}.name = '{{key}}'", _declare_exchange, _delete_exchange, lambda name: (name, ""),
    ),
    "delayed exchange": Definition(
        "broker_queue", "{row}.name LIKE '%{{key}}' AND {row}.name <> '{{key}}'", _declare_delayed, _delete_exchange,
        lambda name: (name, ""),
    ),
    "binding": Definition(
        "broker_binding", "{row}.routing_key = '{{key}}'", _bind,
        lambda channel, name: channel.call(
            m.QueueUnbind(queue=name, exchange="amq.direct", routing_key=name), m.QueueUnbindOk
        ),
        lambda name: ("amq.direct", name),
    ),
}  # fmt: skip


@pytest.fixture
async def node(inprocess: InProcess) -> AsyncIterator[LocalNode]:
    _, node = await inprocess.pair()
    yield node
    assert node.engine_starts == 1  # no store was lost


async def publish(channel: ClientChannel, definition: Definition, name: str) -> bool:
    """Publish a message that needs the definition; return whether it was confirmed and not returned."""
    returned: list[object] = []
    channel.on_returned = returned.append
    header = ContentHeader.build(len(BODY), Properties(delivery_mode=2))
    confirmed = await publish_and_wait(channel, *definition.address(name), header, BODY, mandatory=True)
    return confirmed and not returned


@pytest.mark.parametrize("kind", DEFINITIONS)
async def test_a_refused_definition_is_said_with_the_words_of_postgres_and_does_not_exist(
    node: LocalNode, inprocess: InProcess, kind: str
) -> None:
    definition, name = DEFINITIONS[kind], f"round{next(_rounds)}"
    client = await inprocess.client(node)
    rule = Refusing(definition.table, definition.is_bad.format(row="NEW"))
    async with refusing(node, rule, name):
        for _ in range(2):  # the second time, it must not count as declared
            with pytest.raises(AmqpError, match=WORDS):
                await definition.make(await client.open_channel(), name)
        other = await client.open_channel()
        await other.declare_queue(f"{name}-other", durable=True)
        other = await client.open_channel()
        await other.confirm_select()
        try:
            arrived = await publish(other, definition, name)
        except NotFound:
            arrived = False
        assert not arrived
    assert "refuse()" in await refusals_in_health(node)
    channel = await client.open_channel()
    await definition.make(channel, name)
    await channel.confirm_select()
    assert await publish(channel, definition, name)
    await node.stop()
    again = await inprocess.start_node(node.settings)
    channel = await (await inprocess.client(again)).open_channel()
    await channel.confirm_select()
    assert await publish(channel, definition, name)
    for _ in range(2):
        got = await channel.get(name, no_ack=True)
        assert got is not None
        assert bytes(got.body) == BODY
    await channel.declare_queue(f"{name}-other", durable=True, passive=True)


@pytest.mark.parametrize("kind", DEFINITIONS)
async def test_a_refused_deletion_is_said_and_leaves_the_definition_usable(
    node: LocalNode, inprocess: InProcess, kind: str
) -> None:
    definition, name = DEFINITIONS[kind], f"round{next(_rounds)}"
    client = await inprocess.client(node)
    channel = await client.open_channel()
    await definition.make(channel, name)
    if kind == "delayed exchange":  # of its two rows
        definition = definition._replace(table="broker_exchange", is_bad=DEFINITIONS["exchange"].is_bad)
    rule = Refusing(definition.table, definition.is_bad.format(row="OLD"), "DELETE")
    async with refusing(node, rule, name):
        with pytest.raises(AmqpError, match=WORDS):
            await definition.delete(channel, name)
        channel = await client.open_channel()
        await definition.make(channel, name)
    await channel.confirm_select()
    assert await publish(channel, definition, name)
    await node.stop()
    again = await inprocess.start_node(node.settings)
    channel = await (await inprocess.client(again)).open_channel()
    got = await channel.get(name, no_ack=True)
    assert got is not None
    await definition.delete(channel, name)
    await definition.make(channel, name)


async def test_a_transaction_whose_queue_is_refused_meanwhile_has_no_effect(
    node: LocalNode, inprocess: InProcess
) -> None:
    """The declaration and the transaction arrive together, so the queue exists in memory when it is routed."""
    client = await inprocess.client(node)
    declaring, committing = await client.open_channel(), await client.open_channel()
    await declaring.declare_queue("good", durable=True)
    await committing.call(m.TxSelect(), m.TxSelectOk)
    header = ContentHeader.build(len(BODY), Properties(delivery_mode=2))
    for key in ("good", "bad"):
        committing.publish("", key, header, BODY)
    name_of_bad = "NEW.name = '{key}'"
    async with refusing(node, Refusing("broker_queue", name_of_bad), "bad"):
        outcomes = await asyncio.gather(
            declaring.declare_queue("bad", durable=True),
            committing.call(m.TxCommit(), m.TxCommitOk),
            return_exceptions=True,
        )
    assert [WORDS in str(outcome) for outcome in outcomes] == [True, True]
    channel = await client.open_channel()
    assert (await channel.declare_queue("good", durable=True, passive=True)).message_count == 0


@pytest.mark.parametrize("kind", ["at-least-once", "at-most-once", "delayed"])
async def test_a_message_that_its_next_queue_cannot_store_stays_in_its_queue(
    node: LocalNode, inprocess: InProcess, kind: str
) -> None:
    """It is delivered by the next queue now; but its confirmed row must not go before the new one exists."""
    channel = await (await inprocess.client(node)).open_channel()
    await channel.declare_queue("next", durable=True)
    header = Properties(delivery_mode=2)
    if kind == "delayed":
        exchange, key, header = "late", "", Properties(delivery_mode=2, headers={"x-delay": 100})
        arguments = {"x-delayed-type": "fanout"}
        await channel.declare_exchange("late", "x-delayed-message", durable=True, arguments=arguments)
        await channel.bind_queue("next", "late")
    else:
        exchange, key = "", "first"
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "next", "x-message-ttl": 100}
        await channel.declare_queue("first", durable=True, arguments=dead | {"x-dead-letter-strategy": kind})
    with psycopg.connect(node.store.url) as connection:
        query = "SELECT queue_id FROM broker_queue WHERE name = 'next'"
        [[next_id]] = connection.execute(query).fetchall()
    await channel.confirm_select()
    async with refusing(node, Refusing("broker_message", f"NEW.queue_id = {next_id}"), ""):
        assert await publish_and_wait(channel, exchange, key, ContentHeader.build(len(BODY), header), BODY)
        await until(lambda: node.store.refusals.recent())
        assert "refuse()" in await refusals_in_health(node)
    await node.stop()
    again = await inprocess.start_node(node.settings)
    channel = await (await inprocess.client(again)).open_channel()
    received: list[bytes] = []
    await channel.consume("next", lambda batch: received.extend(bytes(each.body) for each in batch), no_ack=True)
    await until(lambda: received)
    assert received == [BODY]
