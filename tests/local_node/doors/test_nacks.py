"""A nack says nothing: why comes as an event and as a line of the log, and neither has an end in a flood."""

import asyncio
import json
from typing import Any

import pytest
import structlog

from local_node.doors import nacks
from tests.local_node.test_node import confirming, publish, put
from tests.service.inprocess import InProcess, linked


async def test_a_nack_leaves_its_reason(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nacks, "EVENTS_MAX", 2)
    hub = await inprocess.platform()
    a = await inprocess.local("10008", hub.port)
    await linked(a)
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
            told = [await events.get() for _ in range(2)]
    assert [(one["event"], one["token"], one["app_key"]) for one in told] == [
        ("refused", "T0", "trade/order//S0"),
        ("refused", "T1", "trade/order//S1"),
    ]
    assert {(one["reason"][0], one["lk0"], one["target"]) for one in told} == {("SEMQ-5207", "", "1.56001")}
    (line,) = [line for line in lines if line["event"] == "document_not_taken"]  # one line a reason and target
    assert "SEMQ-5207" in line["error"]
    assert line["token"] == "T0"
    assert a.engine.core.counters.counts["nacked"] == 2
    with structlog.testing.capture_logs() as lines:
        results = await asyncio.gather(
            *(publish(channel, "56001", b"x", Encrypt=1, AppKey="trade/order//many") for _ in range(20))
        )
    assert not any(results)
    assert [line for line in lines if line["event"] == "document_not_taken"] == []
    assert a.engine.core.counters.counts["nacked"] == 22
