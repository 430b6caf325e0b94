"""Extracts of real nodes agree with each other: documents of every class, with and without a receipt, that arrive or end
before they are sent."""

import asyncio
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.app import Client
from semq.clock import SystemClock
from semq.store.rows import Event
from spark_reconcile.days import Calendar
from spark_reconcile.extracts.extract import LedgerOrigin, extract_ledger
from spark_reconcile.progress import Progress
from spark_reconcile.run.job import RunRequest, run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.clocks import ShiftedClock, noon_clock
from tests.local_node.pieces.test_transfer import counted_at
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked
from tests.waiting import until

CLOCK = noon_clock()
CLASSES = [(save_fwd, ack2) for save_fwd in (1, 2, 3) for ack2 in (False, True)]
EXPIRES_MS = 5000


async def start(inprocess: InProcess, name: str, hub: HubNode) -> LocalNode:
    text = LOCAL_CONFIG.format(name=name, hub=hub.port)
    node = LocalNode(inprocess.settings(name, text), CLOCK)
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    return node


def lines(node: LocalNode | HubNode, event: Event) -> int:
    return counted_at(node.store.url, f"SELECT count(*) FROM semq_ledger WHERE event = {event:d}")


async def send_all(sender: LocalNode, receiver: LocalNode, hub: HubNode) -> dict[str, tuple[Any, ...]]:
    """Send documents of all classes; return their LK0, with class, receipt and expected verdict."""
    expected: dict[str, tuple[Any, ...]] = {}
    url = "amqp://guest:guest@127.0.0.1:{}".format
    async with Client(url(receiver.port)) as consumer, Client(url(sender.port)) as client:

        async def take(count: int) -> None:
            async with consumer.receive() as documents:
                async for document in documents:
                    await document.ack()
                    if (count := count - 1) == 0:
                        return

        async def send(target: str, save_fwd: int, ack2: bool, verdict: str, expires_at: int = 0) -> str:
            sent = await client.send(target, b"x", save_fwd=save_fwd, ack2=ack2, expires_at=expires_at)
            expected[str(sent.lk0)] = (save_fwd, ack2, verdict)
            return str(sent.lk0)

        taking = asyncio.create_task(take(len(CLASSES)))
        for save_fwd, ack2 in CLASSES:
            await send("56001", save_fwd, ack2, "MATCHED")
        await taking
        for ack2 in (False, True):
            await send("88001", 1, ack2, "DROPPED_BY_POLICY")  # its node is offline
        await until(lambda: lines(receiver, Event.SENDER_ACKED) == 2 and lines(sender, Event.DELIVERED) == 4)
        await until(lambda: lines(hub, Event.DROPPED) == 2 and lines(sender, Event.DROPPED) == 1)
        await hub.stop()
        await until(lambda: sender.parts.hub.link is None)
        for save_fwd, ack2 in CLASSES[2:4]:
            cancelled = await send("56001", save_fwd, ack2, "MATCHED")
            await client.request("msg.cancel", {"id": cancelled, "why": "not wanted"})
            soon = int(CLOCK.wall().timestamp() * 1000) + EXPIRES_MS
            await send("56001", save_fwd, ack2, "REFUSED", expires_at=soon)
        await send("56001", 1, False, "DROPPED_BY_POLICY")
        ends = {Event.CANCELLED: 2, Event.REJECTED: 2, Event.DROPPED: 2}
        await until(lambda: all(lines(sender, event) == count for event, count in ends.items()))
    return expected


async def test_all_classes_with_and_without_receipt_are_extracted_and_judged(
    inprocess: InProcess, spark: SparkSession, tmp_path: Path
) -> None:
    settings = inprocess.settings("hub", HUB_CONFIG.replace('"56001", "10008"', '"56001", "88001"'))
    hub = HubNode(settings, CLOCK)
    inprocess.stack.push_async_callback(hub.stop)
    await hub.start()
    sender, receiver = [await start(inprocess, name, hub) for name in ("10008", "56001")]
    await linked(sender, receiver)
    expected = await send_all(sender, receiver, hub)

    day, next_day = CLOCK.wall().date(), ShiftedClock(CLOCK.ahead + timedelta(days=1))
    for node, name, role in ((hub, "2.hub", "platform"), (sender, "1.10008", "local"), (receiver, "1.56001", "local")):
        with psycopg.connect(node.store.url, autocommit=True) as connection:
            extract_ledger(
                connection, Place.at(tmp_path / "extracts"), LedgerOrigin(name, role=role), day, Calendar(), next_day
            )
    files = (tmp_path / "extracts").rglob("*.parquet")
    extracted = [line for file in files for line in pq.read_table(file).to_pylist()]
    accepted = {line["lk0"]: (line["save_fwd"], line["ack2"]) for line in extracted if line["event"] == Event.ACCEPTED}
    assert accepted == {lk0: (save_fwd, ack2) for lk0, (save_fwd, ack2, _) in expected.items()}

    result = run(
        ReconcileSettings(extracts=str(tmp_path / "extracts"), reports=str(tmp_path / "reports")),
        RunRequest(day), next_day, Progress(SystemClock(), io.StringIO()), spark,
    )  # fmt: skip
    rows = pq.read_table(Path(result.report).parent / "verdicts.parquet").to_pylist()
    found = {row["lk0"]: (*accepted[row["lk0"]], row["verdict"]) for row in rows}
    assert found == expected
    assert (result.outcome, result.exit_code) == ("met", 0)
