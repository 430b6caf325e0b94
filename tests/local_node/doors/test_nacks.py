"""Nacks: their reasons are published as events and logged, both at a bounded rate."""

import asyncio
import json
from typing import Any

import pytest
import structlog

from semq.amqp.content import ContentHeader, Properties
from tests.local_node.test_node import confirming, publish, put
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked


async def test_the_reason_of_a_nack_is_reported(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    listener = await (await inprocess.client(a)).open_channel()
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    queue = (await listener.declare_queue(exclusive=True)).queue
    await listener.bind_queue(queue, "semq.events", "refused.56001.*")
    await listener.consume(queue, lambda batch: put(events, [json.loads(d.body) for d in batch]), no_ack=True)
    channel = await confirming(await inprocess.client(a))
    with structlog.testing.capture_logs() as lines:
        for number in range(2):
            assert not await publish(
                channel, "56001", b"x", Encrypt=1, AppKey=f"trade/order//S{number}", Token=f"T{number}"
            )
        async with asyncio.timeout(60):
            received = [await events.get() for _ in range(2)]
    assert [(event["event"], event["token"], event["app_key"]) for event in received] == [
        ("refused", "T0", "trade/order//S0"),
        ("refused", "T1", "trade/order//S1"),
    ]
    assert {(event["reason"][0], event["lk0"], event["target"]) for event in received} == {("SEMQ-5207", "", "1.56001")}
    (line,) = [line for line in lines if line["event"] == "document_nacked"]
    assert "SEMQ-5207" in line["error"]
    assert line["token"] == "T0"
    assert a.engine.core.counters.counts["nacked"] == 2
    with structlog.testing.capture_logs() as lines:
        results = await asyncio.gather(
            *(publish(channel, "56001", b"x", Encrypt=1, AppKey="trade/order//many") for _ in range(20))
        )
    assert not any(results)
    assert [line for line in lines if line["event"] == "document_nacked"] == []
    assert a.engine.core.counters.counts["nacked"] == 22


QUOTA = "quota_rows_per_partner = 1\n"


async def test_a_reached_quota_is_a_nack_and_the_channel_stays_open(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=hub.port) + QUOTA))
    await linked(a)
    listener = await (await inprocess.client(a)).open_channel()
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    queue = (await listener.declare_queue(exclusive=True)).queue
    await listener.bind_queue(queue, "semq.events", "refused.#")
    await listener.consume(queue, lambda batch: put(events, [json.loads(d.body) for d in batch]), no_ack=True)
    channel = await confirming(await inprocess.client(a))
    assert await publish(channel, "56001", b"first")
    assert not await publish(channel, "56001", b"one too many", Token="again")
    async with asyncio.timeout(60):
        event = await events.get()
    assert (event["reason"][0], event["token"]) == ("SEMQ-1204", "again")
    assert await publish(channel, "10008", b"another partner")  # on the same channel


@pytest.mark.parametrize(("headers", "code"), [({}, "SEMQ-1204"), ({"Encrypt": 1}, "SEMQ-5207")])
async def test_a_channel_without_confirms_is_closed_when_a_document_is_refused(
    inprocess: InProcess, headers: dict[str, int], code: str
) -> None:
    hub = await inprocess.hub()
    a = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=hub.port) + QUOTA))
    await linked(a)
    if not headers:
        assert await publish(await confirming(await inprocess.client(a)), "56001", b"first")
    client = await inprocess.client(a)
    channel, neighbour = await client.open_channel(), await client.open_channel()
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    channel.on_closed = ended.set_result
    attributes = {f"@{name}": value for name, value in headers.items()}
    header = ContentHeader.build(1, Properties(headers=attributes))
    channel.publish("semq", "56001", header, b"x")
    async with asyncio.timeout(60):
        error = await ended
    assert error.reply_code == 406
    assert code in error.text
    assert neighbour.is_open
    assert a.engine.core.counters.counts["nacked"] == 1
