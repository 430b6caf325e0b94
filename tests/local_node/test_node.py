"""A local node and the hub in one event loop: documents, events, SQL, refusals, administration, lost stores."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import psycopg
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.engine.latency import Stage
from semq.store.postgres.store import PostgresStore
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.umx_t.headers import USER_HEADERS_MAX
from tests.service.inprocess import InProcess, ask, cut_off, linked, uplink_of
from tests.transport.publishing import publish_and_wait
from tests.waiting import PATIENCE_S, until

T = TypeVar("T")


async def publish(channel: ClientChannel, target: str, body: bytes, **headers: str | int) -> bool:
    header = ContentHeader.build(len(body), Properties(headers={f"@{k}": v for k, v in headers.items()}))
    async with asyncio.timeout(PATIENCE_S):
        return await publish_and_wait(channel, "semq", target, header, body)


def put(queue: asyncio.Queue[T], values: Sequence[T]) -> None:
    for value in values:
        queue.put_nowait(value)


def put_with(
    queue: asyncio.Queue[tuple[ClientChannel, Delivered]], channel: ClientChannel, batch: Sequence[Delivered]
) -> None:
    put(queue, [(channel, delivered) for delivered in batch])


async def confirming(link: ClientLink) -> ClientChannel:
    channel = await link.open_channel()
    await channel.confirm_select()
    return channel


async def test_a_submission_by_sql_during_the_start_of_the_node_is_read_afterwards(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    notices: list[str] = []
    find, pass_on = PostgresStore.unmet_requirements, LocalNode._pass_notice

    def note(node: LocalNode, channel: str) -> None:
        notices.append(channel)
        pass_on(node, channel)

    async def submit_and_find(store: PostgresStore) -> list[str]:
        with psycopg.connect(store.url, autocommit=True) as connection:
            connection.execute("SELECT semq_send('10008', 'x'::bytea)")
        await until(lambda: notices)
        return await find(store)

    monkeypatch.setattr(LocalNode, "_pass_notice", note)
    monkeypatch.setattr(PostgresStore, "unmet_requirements", submit_and_find)
    node = await inprocess.local("10008", hub.port)
    monkeypatch.undo()
    link = await inprocess.client(node)

    async def is_accepted() -> bool:
        return bool((await ask(link, "msg.show", {"id": "sql-1"}))["ok"])

    await until(is_accepted)
    assert node.engine_starts == 1


async def test_a_document_goes_from_application_to_application(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    listener = await (await inprocess.client(a)).open_channel()
    events: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    queue = (await listener.declare_queue(exclusive=True)).queue
    await listener.bind_queue(queue, "semq.events", "#")
    await listener.consume(queue, lambda batch: put(events, [json.loads(d.body) for d in batch]), no_ack=True)

    order_properties = Properties(
        headers={"@AppKey": "trade/order//S1"}, type="order", correlation_id="case 7", message_id="m1",
        expiration="600000",
    )  # fmt: skip
    sender = await confirming(await inprocess.client(a))
    async with asyncio.timeout(PATIENCE_S):
        assert await publish_and_wait(sender, "semq", "56001", ContentHeader.build(5, order_properties), b"order")

    consumer = await (await inprocess.client(b)).open_channel()
    received: asyncio.Queue[Delivered] = asyncio.Queue()
    await consumer.qos(10)
    await consumer.consume("semq.inbox", lambda batch: put(received, batch))
    async with asyncio.timeout(PATIENCE_S):
        delivered = await received.get()
        first_events = [await events.get() for _ in range(2)]
    assert bytes(delivered.body) == b"order"
    headers = delivered.header.headers or {}
    assert (headers["@AppKey"], headers["x-message-id"]) == ("trade/order//S1", "m1")
    assert (delivered.header.type, delivered.header.correlation_id) == ("order", "case 7")
    assert [event["event"] for event in first_events] == ["sent", "delivered"]
    consumer.ack(delivered.delivery_tag)
    admin = await inprocess.client(b)

    async def is_clean() -> bool:
        counts = (await ask(admin, "queue.census", {"fresh": True}))["result"]
        with psycopg.connect(b.store.url) as connection:
            remembered = connection.execute("SELECT count(*) FROM tb_0030_ledger").fetchone()
        return not counts["sent"] and not counts["received"] and remembered == (0,)

    await until(is_clean)
    counts_at_a_and_b = [(stage, sum(a.latency()[stage].counts), sum(b.latency()[stage].counts)) for stage in Stage]
    assert counts_at_a_and_b == [(Stage.STORED, 1, 0), (Stage.DELIVERED, 1, 0), (Stage.ACKNOWLEDGED, 0, 1)]


# target | headers | error of the channel | part of its text
REFUSED: list[tuple[str, dict[str, str | int], type[amqp.AmqpError], str]] = [
    ("77777", {}, amqp.NotFound, "SEMQ-1201"),
    ("88001", {}, amqp.AccessRefused, "SEMQ-1202"),
    ("56001", {"SaveFwd": 7}, amqp.PreconditionFailed, "SEMQ-1102"),
    ("56001", {"Savefwd": 3}, amqp.PreconditionFailed, "@SaveFwd"),
    ("56001", {"AppKey": "no slashes"}, amqp.PreconditionFailed, "SEMQ-1103"),
    ("56001", {"Reliable": 0}, amqp.PreconditionFailed, "SEMQ-1104"),
    ("5 6", {}, amqp.PreconditionFailed, "SEMQ-1101"),
    ("56001", {"ExpiresAt": 10**11}, amqp.PreconditionFailed, "SEMQ-1206"),
]


async def test_bad_input_ends_its_channel_with_the_reason_and_no_other_channel(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    link = await inprocess.client(a)
    neighbour = await confirming(link)
    for target, headers, error, code in REFUSED:
        with pytest.raises(error, match=code):
            await publish(await confirming(link), target, b"x", **headers)
        assert await publish(neighbour, "56001", b"x")


async def test_a_document_over_the_limit_is_refused(inprocess: InProcess) -> None:
    _, a = await inprocess.pair()
    with pytest.raises(amqp.ContentTooLarge, match="SEMQ-1203"):
        await publish(await confirming(await inprocess.client(a)), "56001", b"x" * 100_001)


async def test_every_door_refuses_headers_that_a_frame_may_not_hold_or_a_peer_not_decode(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    large, deep = {"n": "x" * USER_HEADERS_MAX}, {"n": json.loads("[" * 80 + "]" * 80)}
    link = await inprocess.client(a)
    header = ContentHeader.build(1, Properties(headers=large))
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(amqp.PreconditionFailed, match="SEMQ-1105"):
            await publish_and_wait(await confirming(link), "semq", "56001", header, b"x")
    for headers, code in ((large, "SEMQ-1105"), (deep, "SEMQ-1102")):
        answer = await ask(link, "msg.submit", {"target": "56001", "headers": headers})
        assert answer["error"]["code"] == code
        with psycopg.connect(a.store.url) as connection:
            connection.execute("SELECT semq_send('56001', 'x'::bytea, headers => %s::jsonb)", [json.dumps(headers)])

    def refused() -> list[str]:
        with psycopg.connect(a.store.url) as connection:
            found = connection.execute("SELECT reason_code FROM tb_0031_submit ORDER BY number").fetchall()
            return [code for (code,) in found if code]

    await until(lambda: refused() == ["SEMQ-1105", "SEMQ-1102"])
    assert await publish(await confirming(link), "56001", b"x")


async def test_administrators_submit_read_and_act(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    admin = await inprocess.client(a)
    document = {
        "target": "56001",
        "app_key": "trade/order//S7",
        "body_base64": b64encode(b"seven").decode(),
        "token": "t",
    }
    first = await ask(admin, "msg.submit", document)
    again = await ask(admin, "msg.submit", document)
    assert again["result"]["repeated"]
    lk0 = first["result"]["lk0"]
    (listed,) = (await ask(admin, "msg.list", {"side": "outbound"}))["result"]["rows"]
    assert listed["lk0"] == lk0
    assert (await ask(admin, "msg.body", {"id": "trade/order//S7"}))["result"]["body_base64"] == document["body_base64"]

    async def is_stored() -> bool:
        return bool((await ask(admin, "msg.show", {"id": lk0}))["result"]["ss_status"] == "SS_ACK")

    await until(is_stored)
    trace = (await ask(admin, "msg.trace", {"id": "S7"}))["result"]
    assert [event["event"] for event in trace["events"]][:2] == ["ACCEPTED", "SENT"]
    assert (await ask(admin, "queue.census", {"fresh": True}))["result"]["pairs"][0]["rows"] == 1
    assert (await ask(admin, "msg.resend", {"id": lk0, "why": "test"}))["ok"]
    assert (await ask(admin, "msg.cancel", {"id": lk0}))["ok"]
    assert (await ask(admin, "msg.hold", {"id": lk0}))["error"]["code"] == "SEMQ-1226"
    assert (await ask(admin, "stuck.list"))["result"]["rows"] == []
    assert (await ask(admin, "stuck.explain", {"id": lk0}))["result"]["message"]["lk0"] == lk0
    assert (await ask(admin, "node.status"))["result"]["hub"]["link"] == "up"
    assert (await ask(admin, "no.such"))["error"]["code"] == "SEMQ-2101"
    assert (await ask(admin, "msg.submit", {"nonsense": 1}))["error"]["code"] == "SEMQ-2102"
    assert (await ask(admin, "msg.show", {"id": "1.1.1.1.1.1"}))["error"]["code"] == "SEMQ-1207"
    assert (await ask(admin, "node.drain", {"timeout_s": 5}))["result"]["drained"]
    assert (await ask(admin, "msg.submit", document | {"token": "u"}))["error"]["code"] == "SEMQ-1230"


async def test_documents_submitted_by_sql_belong_to_the_transaction_of_the_application(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    admin = await inprocess.client(a)
    with psycopg.connect(a.store.url) as connection:
        connection.execute("SELECT semq_send('56001', 'rolled back'::bytea)")
        connection.rollback()
        connection.execute("SELECT semq_send('56001', 'kept'::bytea, app_key => 'trade/order//Q1')")
        connection.execute("SELECT semq_send('77777', 'nobody'::bytea)")
        connection.commit()

    async def listed() -> list[dict[str, object]]:
        rows: list[dict[str, object]] = (await ask(admin, "msg.list"))["result"]["rows"]
        return [row for row in rows if "submission" not in row]

    def refused() -> list[tuple[object, ...]]:
        with psycopg.connect(a.store.url) as connection:
            return connection.execute(
                "SELECT target, reason_code FROM tb_0031_submit WHERE reason_code <> ''"
            ).fetchall()

    assert [row["app_key"] for row in await until(listed)] == ["trade/order//Q1"]
    assert await until(refused) == [("77777", "SEMQ-1201")]


def began_again(node: LocalNode | HubNode) -> bool:
    """Whether the node serves again, with an engine that it has built since the loss of the store."""
    return node.engine_starts > 1 and not node._is_lost


async def test_a_lost_store_leads_to_a_new_engine(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    channel = await confirming(await inprocess.client(a))
    assert await publish(channel, "56001", b"1")
    for node in (a, hub, b):
        cut_off(node)
        await until(partial(began_again, node))
    await linked(a, b)
    assert await publish(channel, "56001", b"2")
    consumer = await (await inprocess.client(b)).open_channel()
    received: set[bytes] = set()
    await consumer.consume(
        "semq.inbox", lambda batch: received.update(bytes(delivered.body) for delivered in batch), no_ack=True
    )
    await until(lambda: received == {b"1", b"2"})


async def test_unacknowledged_documents_are_not_delivered_again_when_the_store_is_lost(inprocess: InProcess) -> None:
    """One of three documents with one order key is processed while the store is lost and opened again."""
    _, node = await inprocess.pair()
    channel = await confirming(await inprocess.client(node))
    received: asyncio.Queue[tuple[ClientChannel, Delivered]] = asyncio.Queue()
    for _ in range(2):
        consumer = await (await inprocess.client(node)).open_channel()
        await consumer.qos(1)
        await consumer.consume("semq.inbox", partial(put_with, received, consumer))
    for body in (b"1", b"2", b"3"):
        assert await publish(channel, "10008", body, OrderKey="k")
    acknowledged = []
    async with asyncio.timeout(PATIENCE_S):
        first = await received.get()
        cut_off(node)
        await until(partial(began_again, node))
        assert await publish(channel, "10008", b"unordered")  # the new engine delivers documents
        unordered = await received.get()
        for consumer, delivered in (first, unordered):
            consumer.ack(delivered.delivery_tag)
            acknowledged.append(delivered)
        while len(acknowledged) < 4:
            consumer, delivered = await received.get()
            consumer.ack(delivered.delivery_tag)
            acknowledged.append(delivered)
    assert [bytes(delivered.body) for delivered in acknowledged] == [b"1", b"unordered", b"2", b"3"]
    assert not any(delivered.redelivered for delivered in acknowledged)


async def test_a_document_acknowledged_while_the_store_is_away_is_delivered_again(inprocess: InProcess) -> None:
    _, node = await inprocess.pair()
    channel = await confirming(await inprocess.client(node))
    consumer = await (await inprocess.client(node)).open_channel()
    received: asyncio.Queue[Delivered] = asyncio.Queue()
    await consumer.consume("semq.inbox", partial(put, received))
    assert await publish(channel, "10008", b"1")
    async with asyncio.timeout(PATIENCE_S):
        first = await received.get()
        cut_off(node)  # the node notices the loss later
        consumer.ack(first.delivery_tag)
        again = await received.get()
    assert (bytes(again.body), first.redelivered, again.redelivered) == (b"1", False, True)


async def test_a_drained_node_stays_drained_when_its_store_is_lost(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    assert (await ask(await inprocess.client(a), "node.drain", {"timeout_s": 5}))["result"]["drained"]
    cut_off(a)
    await until(partial(began_again, a))
    checks = (await ask(await inprocess.client(a), "node.health"))["result"]["checks"]
    (check,) = [check for check in checks if check["check"] == "intake"]
    assert (check["verdict"], "drained" in check["detail"]) == ("warning", True)
    document = {"target": "56001", "body_base64": "eA=="}
    assert (await ask(await inprocess.client(a), "msg.submit", document))["error"]["code"] == "SEMQ-1230"


async def test_a_second_node_of_the_same_name_waits_for_the_end_of_the_first(inprocess: InProcess) -> None:
    hub, first = await inprocess.linked_pair()
    (inprocess.folder / "10008" / "store").unlink()
    second = await inprocess.local("10008", hub.port)
    # The hub refuses a node with another store until an operator permits it.
    await until(lambda: "SEMQ-1250" in uplink_of(second).last_error)
    assert (await ask(await inprocess.client(hub), "nodes.rebind", {"node": "10008"}))["result"]["was_bound"]
    await until(lambda: "another session" in uplink_of(second).last_error)
    assert first.parts.hub.link is not None
    await first.parts.hub.stop()
    await linked(second)
    listed = (await ask(await inprocess.client(hub), "nodes.list"))["result"]
    assert {row["node"]: row["online"] for row in listed} == {"1.10008": True, "1.56001": False, "1.88001": False}
