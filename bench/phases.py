"""The phases of a measurement: online, stored, latency. Their docstrings state the measured time.

Rates are sustained: the time ends when all nodes are clean, that is, when their queues are empty again. The phase
``latency`` measures by A's events; the other phases have many documents under way, and poll counters
(``load.Watcher``).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, TypeVar

from bench import gauges
from bench.errors import Incomplete, NoProgress
from bench.floor import rows
from bench.floor.floor import Observed
from bench.floor.reference import TableWork
from bench.load import SILENCE_S_MAX, LoadApplication, LoadListener, LoadReceiver, LoadSubmitter, Watcher
from bench.network import ABSENT, A, BenchNetwork
from semq.installation.configuration import HUB

Result = dict[str, Any]
ABSENT_NODE = f"1.{ABSENT}"
Application = TypeVar("Application", bound=LoadApplication)


@dataclass(slots=True)
class Bench:
    """The network under test, and the data shared by the phases."""

    network: BenchNetwork
    size: int  #: bytes of a document
    next_number: int = 0  #: number of the next document
    encrypt: bool = False  #: whether documents are sealed
    large: range = range(0)  #: numbers of the documents with ``large_size`` bytes
    large_size: int = 0
    #: counts of faulty documents, in all phases
    faults: dict[str, int] = field(default_factory=lambda: {"repeated": 0, "damaged": 0, "missing": 0})

    def take_numbers(self, count: int) -> range:
        """Return the numbers of the next documents; no other call returns them."""
        first = self.next_number
        self.next_number += count
        return range(first, first + count)

    def size_of(self, number: int) -> int:
        return self.large_size if number in self.large else self.size

    def check_received(self, receivers: list[LoadReceiver], numbers: range) -> None:
        """Raise Incomplete unless every document of a phase was received once, with the full size."""
        received = set().union(*(receiver.received for receiver in receivers))
        at_two_receivers = sum(len(receiver.received) for receiver in receivers) - len(received)
        self.faults["repeated"] += at_two_receivers + sum(receiver.repeated for receiver in receivers)
        self.faults["damaged"] += sum(receiver.damaged for receiver in receivers)
        self.faults["missing"] += len(set(numbers) - received)
        if any(self.faults.values()):
            raise Incomplete(", ".join(f"{count} {fault}" for fault, count in self.faults.items()))

    @property
    def databases(self) -> dict[str, str]:
        """The URL of each node's database, by node; a restart may change it."""
        return {name: node.database for name, node in self.network.nodes.items()}

    @property
    def targets(self) -> list[str]:
        return [self.network.nodes[name].place.node_id for name in self.network.partners]

    async def wait_clean(self) -> None:
        """Wait until every queue is empty, except for documents to ABSENT_NODE. Raises NoProgress."""
        await rows.wait_clean(self.databases, ABSENT_NODE)

    async def submitter(self, stack: AsyncExitStack) -> LoadSubmitter:
        application = _closed_by(stack, await LoadSubmitter.connect(self.network, A))
        return await application.begin(self.targets, self.encrypt)

    async def receivers(self, stack: AsyncExitStack) -> list[LoadReceiver]:
        names = self.network.partners
        applications = [_closed_by(stack, await LoadReceiver.connect(self.network, name)) for name in names]
        return [await application.begin(self.size_of) for application in applications]

    async def watcher(self, stack: AsyncExitStack, name: str = A) -> Watcher:
        watcher = await Watcher.connect(self.network, name)
        stack.push_async_callback(watcher.close)
        return watcher


async def online(bench: Bench, messages: int) -> Result:
    """Measure from the first submit at A until all nodes are clean; the partners are online.

    The time of ``ack2_per_s`` ends with the last SS_ACK2 at A.
    """
    numbers, meter = bench.take_numbers(messages), gauges.ProcessorMeter(bench.network)
    async with AsyncExitStack() as stack:
        receivers, submitter = await bench.receivers(stack), await bench.submitter(stack)
        watcher = await bench.watcher(stack)
        goal = await watcher.count("delivered") + messages
        meter.start()
        began = time.perf_counter()
        submitting = submitter.submit(numbers.start, messages, bench.size)
        _, acked_at = await asyncio.gather(submitting, watcher.wait_count("delivered", goal))
        await bench.wait_clean()
        meter.stop()
        bench.check_received(receivers, numbers)
    ack2_s = acked_at - began
    return {
        **_rate_and_cpu(messages, meter), "ack2_per_s": round(messages / ack2_s),
        "clean_s": round(meter.seconds - ack2_s, 2),
    }  # fmt: skip


async def stored(bench: Bench, messages: int) -> Result:
    """Measure from the first submit at A until all nodes are clean; the time in which the partners start is left out.

    The partners are offline until all documents are stored at the hub (``store_s``). ``drain_s`` begins when all
    partners have sessions.
    """
    numbers, meter = bench.take_numbers(messages), gauges.ProcessorMeter(bench.network)
    network = bench.network
    await asyncio.gather(*(network.stop(name) for name in network.partners))
    async with AsyncExitStack() as stack:
        submitter, at_a, at_hub = (
            await bench.submitter(stack), await bench.watcher(stack), await bench.watcher(stack, HUB)
        )  # fmt: skip
        delivered_goal = await at_a.count("delivered") + messages
        stored_goal = await at_hub.count("stored") + messages
        meter.start()
        submitting = submitter.submit(numbers.start, messages, bench.size)
        await asyncio.gather(submitting, at_hub.wait_count("stored", stored_goal))
        meter.stop()
        store_s = meter.seconds
        for name in network.partners:
            await network.start(name)
        receivers = await bench.receivers(stack)
        await at_hub.wait_online(bench.targets)
        meter.start()
        await at_a.wait_count("delivered", delivered_goal)
        await bench.wait_clean()
        meter.stop()
        bench.check_received(receivers, numbers)
    drain_s = meter.seconds - store_s
    return {
        **_rate_and_cpu(messages, meter), "store_s": round(store_s, 2), "store_per_s": round(messages / store_s),
        "drain_s": round(drain_s, 2), "drain_per_s": round(messages / drain_s),
    }  # fmt: skip


async def latency(bench: Bench, messages: int, rate: float) -> Result:
    """Measure from the publish at A to the event ``delivered`` in A's application, with documents at a fixed rate."""
    numbers, meter = bench.take_numbers(messages), gauges.ProcessorMeter(bench.network)
    async with AsyncExitStack() as stack:
        receivers = await bench.receivers(stack)
        meter.start()
        result = await measure_latency(bench, numbers, rate, stack)
        await bench.wait_clean()
        meter.stop()
        bench.check_received(receivers, numbers)
    cpu_us = meter.cpu_us(messages)
    return {**result, "cpu_us": gauges.sum_of_nodes(cpu_us), "cpu_us_by_process": cpu_us}


async def measure_latency(bench: Bench, numbers: range, rate: float, stack: AsyncExitStack) -> Result:
    """Publish documents at a rate, wait for their events, and return the latencies. Raises NoProgress."""
    sent: dict[int, float] = {}
    latencies: list[float] = []
    all_delivered = asyncio.Event()

    def on_delivered(number: int, moment: float) -> None:
        if number in sent:  # other documents may be under way
            latencies.append((moment - sent[number]) * 1000)
        if len(latencies) == len(numbers):
            all_delivered.set()

    submitter = await bench.submitter(stack)
    listener = _closed_by(stack, await LoadListener.connect(bench.network, A))
    await listener.begin(on_delivered)
    started = time.perf_counter()
    for place, number in enumerate(numbers):
        await asyncio.sleep(max(started + place / rate - time.perf_counter(), 0))
        sent[number] = time.perf_counter()
        submitter.publish(number, bench.size)
    try:
        async with asyncio.timeout(SILENCE_S_MAX):
            await all_delivered.wait()
    except TimeoutError as error:
        raise NoProgress(f"{len(latencies)} of {len(numbers)} documents were delivered.") from error
    cuts = quantiles(latencies, n=100, method="inclusive")
    return {
        "messages": len(numbers), "rate_per_s": rate, "p50_ms": round(cuts[49], 2), "p90_ms": round(cuts[89], 2),
        "p99_ms": round(cuts[98], 2), "max_ms": round(max(latencies), 2),
    }  # fmt: skip


async def run_observed(
    bench: Bench, phase: Callable[[Bench, int], Coroutine[Any, Any, Result]], messages: int
) -> tuple[Result, Mapping[str, Observed]]:
    """Run a phase. Return the result, and the work by node. Raises Incomplete if a node built a new engine."""
    before = await rows.read(bench.databases)
    commits_before = {name: await _commits(bench, name) for name in bench.network.nodes}
    pids = {name: node.pid for name, node in bench.network.nodes.items()}
    async with rows.peaks(lambda: bench.databases) as peaks:
        result = await phase(bench, messages)
    after = await rows.read(bench.databases)
    work: dict[str, Observed] = {}
    changes: dict[str, rows.RowsReading] = {}
    for name, node in bench.network.nodes.items():
        earlier = commits_before[name] if node.pid == pids[name] else 0  # a new process counts from 0
        commits = await _commits(bench, name) - earlier
        changes[name] = after[name].since(before[name])
        work[name] = Observed(bench.databases[name], TableWork(changes[name].tables, messages), commits)
    result["rss_mib"] = gauges.rss_mib(bench.network)
    result["rows_peak"] = peaks
    result["rows_per_message"] = {name: reading.per_message(messages) for name, reading in changes.items()}
    result["wal_bytes_per_message"] = {name: round(reading.wal_bytes / messages) for name, reading in changes.items()}
    result["fsyncs_per_message"] = {name: round(reading.fsyncs / messages, 4) for name, reading in changes.items()}
    result["messages_per_commit"] = {name: round(messages / max(node.commits, 1), 1) for name, node in work.items()}
    return result, work


async def _commits(bench: Bench, name: str) -> int:
    """Return the number of changing transactions of a node's writer since its process started. Raises Incomplete."""
    status = await bench.network.status(name)
    if status["engine_starts"] != 1:
        raise Incomplete(f"{name} lost its store and restarted its engine: {bench.network.nodes[name].log_tail()}")
    store = status["store"]
    return int(store["units"]) - int(store["read_only"])


def _closed_by(stack: AsyncExitStack, application: Application) -> Application:
    stack.push_async_callback(application.close)
    return application


def _rate_and_cpu(messages: int, meter: gauges.ProcessorMeter) -> Result:
    cpu_us = meter.cpu_us(messages)
    return {
        "messages": messages, "seconds": round(meter.seconds, 2), "per_s": round(messages / meter.seconds),
        "cpu_us": gauges.sum_of_nodes(cpu_us), "cpu_us_by_process": cpu_us,
    }  # fmt: skip
