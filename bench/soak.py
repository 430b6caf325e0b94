"""``./run bench soak``: a steady load for many minutes; latency, tables and memory of each minute, and their drift.

    ./run bench soak [--minutes N] [--rate PER_S] [--size BYTES] [--json]

A sends to B at a fixed rate, whether or not earlier documents have arrived. The default of ``--rate`` is 80 % of the
sustained rate of 20,000 documents, which is measured first. For each minute, the run prints the latency from publish to
the event ``delivered``, and the resident memory of each node. It also prints the number of rows in the queues, and the
sizes of the queues' tables and of the ledger with their indexes. The ledger grows with the documents, by design.

``drift`` is the mean of the last third of the minutes divided by the mean of the first third: about 1 if nothing grows.
A run has no figures if a document is lost, repeated or damaged, or if more documents are under way than are sent in
``UNDER_WAY_S_MAX`` seconds (100 at least).
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import psycopg

from bench import cli, gauges, phases
from bench.errors import Incomplete, NoProgress
from bench.floor import rows
from bench.load import LoadListener, LoadReceiver
from bench.network import A, BenchNetwork

Result = dict[str, Any]
TRIAL = 20_000  # documents for the sustained rate
SHARE = 0.8  # of the sustained rate: the default of --rate
MINUTE_S = 60.0
UNDER_WAY_S_MAX = 30.0
# Tables whose size does not depend on the number of documents sent so far.
QUEUE_TABLES = ("tb_0031", "tb_0031_body", "tb_0030", "tb_0030_body", "tb_0030_ledger")
# Bytes of these tables with their indexes, and of the ledger.
SIZE = """
    SELECT coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relname = ANY(%s)), 0)::bigint,
        coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relname LIKE 'semq_ledger%%'), 0)::bigint
    FROM pg_class WHERE relkind = 'r'"""
SUMMARY = """
{messages} documents of {size} bytes in {minutes:g} minutes, {rate:g}/s; load {load_1m} at the start
  latency  {p50_ms} ms p50, {p99_ms} ms p99 of the minutes in the middle; drift of p99 {drift[p99_ms]}
  tables   {queue_mib} MiB in the queues at the end, drift {drift[queue_mib]}; ledger {ledger_mib} MiB
  memory   {rss_mib} MiB in the nodes at the end, drift {drift[rss_mib]}; {rows_left} rows left
"""


class Numbers(set[int]):
    """A set of document numbers: all below ``floor``, and added ones above it. Only the added ones need memory."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.floor = first

    def add(self, number: int) -> None:
        super().add(number)
        while super().__contains__(self.floor):
            self.discard(self.floor)
            self.floor += 1

    def __contains__(self, number: object) -> bool:
        return (isinstance(number, int) and number < self.floor) or super().__contains__(number)


@dataclass(slots=True)
class Latencies:
    """The times at which undelivered documents were published, and the latencies of the present minute."""

    sent: dict[int, float] = field(default_factory=dict)
    values: list[float] = field(default_factory=list)  #: milliseconds

    def on_delivered(self, number: int, moment: float) -> None:
        sent_at = self.sent.pop(number, None)
        if sent_at is not None:
            self.values.append((moment - sent_at) * 1000)

    def of_minute(self) -> Result:
        """Return the figures since the last call. Raises NoProgress."""
        values, self.values = self.values, []
        if len(values) < 2:
            raise NoProgress("No documents were delivered for a minute.")
        cuts = quantiles(values, n=100, method="inclusive")
        return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2), "max_ms": round(max(values), 2)}


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("soak", __doc__)
    parser.add_argument("--minutes", type=cli.positive, default=30.0, metavar="N", help="duration of the load (30)")
    parser.add_argument(
        "--rate",
        type=cli.positive,
        default=0.0,
        metavar="PER_S",
        help="documents a second (80 %% of the sustained rate)",
    )
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    arguments = parser.parse_args(argv)
    return cli.in_folder(
        lambda folder: run(folder, arguments.minutes, arguments.rate, arguments.size),
        arguments,
        lambda result: SUMMARY.format(**result),
    )


async def run(folder: Path, minutes: float, rate: float, size: int) -> Result:
    """Start a network and return the figures."""
    load = cli.load_average()
    async with BenchNetwork(folder) as network:
        bench = phases.Bench(network, size)
        result = await network.watched(measure(bench, minutes, rate))
    return {"minutes": minutes, "size": size, "load_1m": load, **result}


async def measure(bench: phases.Bench, minutes: float, rate: float) -> Result:
    """Run the load; ``rate`` 0: at SHARE of the sustained rate, which is measured first."""
    if not rate:
        cli.say(f"the sustained rate: {TRIAL} documents ...")
        rate = round(SHARE * int((await phases.online(bench, TRIAL))["per_s"]), 1)
    count = max(int(minutes * MINUTE_S * rate), 2)
    cli.say(f"soak: {count} documents at {rate:g} a second ...")
    samples = await soak(bench, bench.take_numbers(count), rate)
    rss = sum(samples[-1]["rss_mib"].values())
    middle = samples[len(samples) // 3 : -(len(samples) // 3) or None]
    return {
        "rate": rate, "messages": count,
        "p50_ms": round(mean(s["p50_ms"] for s in middle), 2), "p99_ms": round(mean(s["p99_ms"] for s in middle), 2),
        "queue_mib": samples[-1]["queue_mib"], "ledger_mib": samples[-1]["ledger_mib"], "rss_mib": round(rss, 1),
        "rows_left": await rows.queued(bench.databases, phases.ABSENT_NODE), "drift": drift(samples),
        "samples": samples,
    }  # fmt: skip


async def soak(bench: phases.Bench, numbers: range, rate: float) -> list[Result]:
    """Publish documents at the rate; return the samples. Raises Incomplete, NoProgress."""
    received, latencies = Numbers(numbers.start), Latencies()
    samples: list[Result] = []
    async with AsyncExitStack() as stack:
        (receiver,) = await bench.receivers(stack)
        receiver.received = received
        listener = await LoadListener.connect(bench.network, A)
        stack.push_async_callback(listener.close)
        await listener.begin(latencies.on_delivered)
        submitter = await bench.submitter(stack)
        began = time.perf_counter()
        per_minute = max(int(min(MINUTE_S * rate, len(numbers))), 2)
        for place, number in enumerate(numbers, 1):
            await asyncio.sleep(max(began + place / rate - time.perf_counter(), 0))
            latencies.sent[number] = time.perf_counter()
            submitter.publish(number, bench.size)
            if len(latencies.sent) > max(UNDER_WAY_S_MAX * rate, 100):
                raise NoProgress(
                    f"{len(latencies.sent)} documents are under way: the rate is too high for this machine."
                )
            is_last = place == len(numbers)
            # The last minute includes the remainder.
            if is_last or (place % per_minute == 0 and len(numbers) - place >= per_minute):
                samples.append({**latencies.of_minute(), **await sample(bench)})
                cli.show("minute", {"minute": len(samples), **samples[-1]})
        await bench.wait_clean()
        check_received(receiver, received, numbers)
    return samples


def check_received(receiver: LoadReceiver, received: Numbers, numbers: range) -> None:
    """Raise Incomplete unless every document was received once."""
    missing = len(set(numbers[received.floor - numbers.start :]) - received)
    if missing or receiver.repeated or receiver.damaged:
        raise Incomplete(f"{missing} missing, {receiver.repeated} repeated, {receiver.damaged} damaged")


async def sample(bench: phases.Bench) -> Result:
    """Return the figures of tables and memory now."""
    queue_bytes = ledger_bytes = 0
    for url in bench.databases.values():
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            row = await (await connection.execute(SIZE, (list(QUEUE_TABLES),))).fetchone()
            assert row is not None
            queue_bytes, ledger_bytes = queue_bytes + row[0], ledger_bytes + row[1]
    return {
        "rows": await rows.queued(bench.databases, phases.ABSENT_NODE), "queue_mib": round(queue_bytes / 2**20, 2),
        "ledger_mib": round(ledger_bytes / 2**20, 2), "rss_mib": gauges.rss_mib(bench.network),
    }  # fmt: skip


def drift(samples: list[Result]) -> dict[str, float | None]:
    """Return the drift of the figures; None for fewer than three samples, or if the first third has the mean 0."""
    third = len(samples) // 3

    def ratio(figures: Iterable[float]) -> float | None:
        values = list(figures)
        return round(mean(values[-third:]) / mean(values[:third]), 3) if third and mean(values[:third]) else None

    return {
        **{name: ratio(s[name] for s in samples) for name in ("p50_ms", "p99_ms", "queue_mib")},
        "rss_mib": ratio(sum(s["rss_mib"].values()) for s in samples),
    }
