"""``./run bench soak``: a steady load for many minutes; latency, tables and memory of each minute, and their drift.

    ./run bench soak [--minutes N] [--rate PER_S] [--size BYTES] [--json]

A sends to B at a fixed rate, whether or not earlier documents have arrived. Without ``--rate`` it is 80 % of the
sustained rate of 20,000 documents, measured first. Each minute prints the latency from publish to the event
``delivered`` (p50, p99, maximum), the rows in the queues, the size of their tables with indexes, of the ledger, and the
resident memory of each node. The ledger and the journal of tokens grow with the documents, by design.

``drift`` is the mean of the last third of the minutes divided by that of the first third: about 1 if nothing grows. A
run has no figures if a document is lost, repeated or damaged, or if more than ``BEHIND_S`` of the rate is outstanding.
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
from bench.errors import Incomplete, Stuck
from bench.floor import rows
from bench.load import LoadListener, LoadReceiver
from bench.network import A, BenchNetwork

Result = dict[str, Any]
TRIAL, SHARE = 20_000, 0.8  # documents of the measurement of the sustained rate, and the share of that rate to keep up
MINUTE_S = 60.0
BEHIND_S = 30.0
# Tables whose size is independent of the number of documents sent so far, and tables with a row for each document.
QUEUE_TABLES = ("tb_0031", "tb_0031_body", "tb_0030", "tb_0030_body", "tb_0030_ledger")
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
    """A set of numbers of documents: all below ``floor``, and the members. Its size is bounded if the numbers are added
    nearly in order.
    """

    def __init__(self, first: int) -> None:
        super().__init__()
        self.floor = first

    def add(self, number: int) -> None:
        """Add a number; raise the floor up to the first gap."""
        super().add(number)
        while super().__contains__(self.floor):
            self.discard(self.floor)
            self.floor += 1

    def __contains__(self, number: object) -> bool:
        return (isinstance(number, int) and number < self.floor) or super().__contains__(number)


@dataclass(slots=True)
class Latencies:
    """The times of documents not yet delivered, and the latencies of the present minute."""

    sent: dict[int, float] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)

    def delivered(self, number: int, moment: float) -> None:
        """Note the event of a document."""
        since = self.sent.pop(number, None)
        if since is not None:
            self.took.append((moment - since) * 1000)

    def of_minute(self) -> Result:
        """Return the figures since the last call."""
        took, self.took = self.took, []
        if len(took) < 2:
            raise Stuck("No documents were delivered for a minute.")
        cuts = quantiles(took, n=100, method="inclusive")
        return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2), "max_ms": round(max(took), 2)}


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("soak", __doc__)
    parser.add_argument("--minutes", type=cli.rate, default=30.0, metavar="N", help="how long (30)")
    parser.add_argument(
        "--rate", type=cli.rate, default=0.0, metavar="PER_S", help="documents a second (0: 80 %% of most)"
    )
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    given = parser.parse_args(argv)
    return cli.in_folder(
        lambda folder: run(folder, given.minutes, given.rate, given.size), given, lambda found: SUMMARY.format(**found)
    )


async def run(folder: Path, minutes: float, rate: float, size: int) -> Result:
    """Start a network and return the figures."""
    load = cli.load_average()
    async with BenchNetwork(folder) as network:
        bench = phases.Bench(network, size)
        found = await network.watched(measure(bench, minutes, rate))
    return {"minutes": minutes, "size": size, "load_1m": load, **found}


async def measure(bench: phases.Bench, minutes: float, rate: float) -> Result:
    """Measure the sustained rate if no rate is given, then run the load."""
    if not rate:
        cli.say(f"the sustained rate: {TRIAL} documents ...")
        rate = round(SHARE * int((await phases.online(bench, TRIAL))["per_s"]), 1)
    count = max(int(minutes * MINUTE_S * rate), 2)
    cli.say(f"soak: {count} documents at {rate:g} a second ...")
    samples = await soak(bench, bench.numbers(count), rate)
    rss = sum(samples[-1]["rss_mib"].values())
    middle = samples[len(samples) // 3 : -(len(samples) // 3) or None]
    return {
        "rate": rate, "messages": count,
        "p50_ms": round(mean(s["p50_ms"] for s in middle), 2), "p99_ms": round(mean(s["p99_ms"] for s in middle), 2),
        "queue_mib": samples[-1]["queue_mib"], "ledger_mib": samples[-1]["ledger_mib"], "rss_mib": round(rss, 1),
        "rows_left": await rows.left(bench.databases, phases.ABSENT_NODE), "drift": drift(samples), "samples": samples,
    }  # fmt: skip


async def soak(bench: phases.Bench, numbers: range, rate: float) -> list[Result]:
    """Publish these documents at the rate; return the samples. Raises Incomplete, Stuck."""
    seen, under_way = Numbers(numbers.start), Latencies()
    samples: list[Result] = []
    async with AsyncExitStack() as stack:
        (receiver,) = await bench.receivers(stack)
        receiver.seen = seen
        listener = await LoadListener.connect(bench.network, A)
        stack.push_async_callback(listener.close)
        await listener.begin(under_way.delivered)
        submitter = await bench.submitter(stack)
        began = time.perf_counter()
        every = max(int(min(MINUTE_S * rate, len(numbers))), 2)
        for place, number in enumerate(numbers, 1):
            await asyncio.sleep(max(began + place / rate - time.perf_counter(), 0))
            under_way.sent[number] = time.perf_counter()
            submitter.publish(number, bench.size)
            if len(under_way.sent) > max(BEHIND_S * rate, 100):
                raise Stuck(f"{len(under_way.sent)} documents are under way: the rate is too high for this machine.")
            if (place % every == 0 and len(numbers) - place >= every) or place == len(numbers):
                samples.append({**under_way.of_minute(), **await sample(bench)})
                cli.show("minute", {"minute": len(samples), **samples[-1]})
        await bench.clean()
        await settle(receiver, seen, numbers)
    return samples


async def settle(receiver: LoadReceiver, seen: Numbers, numbers: range) -> None:
    """Check that every document was received once. Raises Incomplete."""
    missing = len(set(numbers[seen.floor - numbers.start :]) - seen)
    if missing or receiver.repeated or receiver.damaged:
        raise Incomplete(f"{missing} missing, {receiver.repeated} repeated, {receiver.damaged} damaged")


async def sample(bench: phases.Bench) -> Result:
    """Return sizes of tables and memory of all nodes now."""
    queue_bytes = ledger_bytes = 0
    for url in bench.databases.values():
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            found = await (await connection.execute(SIZE, (list(QUEUE_TABLES),))).fetchone()
            assert found is not None
            queue_bytes, ledger_bytes = queue_bytes + found[0], ledger_bytes + found[1]
    return {
        "rows": await rows.left(bench.databases, phases.ABSENT_NODE), "queue_mib": round(queue_bytes / 2**20, 2),
        "ledger_mib": round(ledger_bytes / 2**20, 2), "rss_mib": gauges.rss_mib(bench.network),
    }  # fmt: skip


def drift(samples: list[Result]) -> dict[str, float | None]:
    """Return the last third of the samples divided by the first third, by figure; None for fewer than three."""
    third = len(samples) // 3

    def ratio(figures: Iterable[float]) -> float | None:
        values = list(figures)
        return round(mean(values[-third:]) / mean(values[:third]), 3) if third and mean(values[:third]) else None

    return {
        **{name: ratio(s[name] for s in samples) for name in ("p50_ms", "p99_ms", "queue_mib")},
        "rss_mib": ratio(sum(s["rss_mib"].values()) for s in samples),
    }
