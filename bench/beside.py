"""``./run bench large --beside``: the latency of small documents, alone and beside large ones, in turns within one run.

Each round sends small documents alone, and then at the same rate beside large ones, which another process (``bulk``)
sends and receives. Both latencies come from the same minutes, so their ratio is valid on a shared machine, too.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench import cli, gauges, phases
from bench.bulk import BulkTask
from bench.errors import Incomplete, NoProgress
from bench.load import SILENCE_S_MAX, SIZE_MIN, LoadListener, LoadReceiver, LoadSubmitter
from bench.network import A, B
from semq.amqp.events import Delivered

Result = dict[str, Any]
STAGES = ("confirmed", "received", "delivered")


@dataclass(slots=True)
class SmallDocuments:
    """The small documents of one run, alone or beside large ones."""

    sent: dict[int, float] = field(default_factory=dict)  #: time of publication by number
    #: milliseconds from publication to each stage
    latencies: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})
    progress: asyncio.Event = field(default_factory=asyncio.Event)

    def record(self, stage: str, number: int, moment: float) -> None:
        if number in self.sent:
            self.latencies[stage].append((moment - self.sent[number]) * 1000)
            self.progress.set()

    async def wait_complete(self) -> None:
        """Wait until each document has reached all stages. Raises NoProgress."""
        while any(len(latencies) < len(self.sent) for latencies in self.latencies.values()):
            self.progress.clear()
            try:
                async with asyncio.timeout(SILENCE_S_MAX):
                    await self.progress.wait()
            except TimeoutError as error:
                delivered = len(self.latencies["delivered"])
                raise NoProgress(f"{delivered} of {len(self.sent)} documents were delivered.") from error

    def figures(self) -> Result:
        cuts = {stage: quantiles(values, n=100, method="inclusive") for stage, values in self.latencies.items()}
        return {
            "messages": len(self.sent),
            **{f"{stage}_{name}_ms": round(cut[at], 2) for stage, cut in cuts.items() for name, at in PERCENTILES},
        }


PERCENTILES = (("p50", 49), ("p90", 89), ("p99", 98))  # name, index in the result of ``quantiles``


class SmallSubmitter(LoadSubmitter):
    """A submitter that records the confirms by A."""

    small: SmallDocuments

    def _settled(self, settled: list[tuple[Any, bool]]) -> None:
        now = time.perf_counter()
        super()._settled(settled)
        for number, _ in settled:
            self.small.record("confirmed", number, now)


class SmallReceiver(LoadReceiver):
    """A receiver that records the arrivals at B's application."""

    small: SmallDocuments

    def _on_documents(self, batch: list[Delivered]) -> None:
        now = time.perf_counter()
        super()._on_documents(batch)
        for delivered in batch:
            self.small.record("received", int.from_bytes(delivered.body[:SIZE_MIN], "big"), now)


class AlternatingLoad:
    """The applications for small documents."""

    def __init__(self, bench: phases.Bench, rate: float) -> None:
        self._bench = bench
        self._rate = rate
        self.meters = {name: gauges.ProcessorMeter(bench.network) for name in ("alone", "beside")}
        self.large: list[Result] = []  #: results of the portions of large documents

    async def begin(self, stack: AsyncExitStack) -> None:
        network = self._bench.network
        self._submitter = await SmallSubmitter.connect(network, A)
        self._receiver = await SmallReceiver.connect(network, B)
        self._listener = await LoadListener.connect(network, A)
        for application in (self._submitter, self._receiver, self._listener):
            stack.push_async_callback(application.close)
        await self._submitter.begin(self._bench.targets, self._bench.encrypt)
        await self._receiver.begin(self._bench.size_of)
        await self._listener.begin(lambda number, moment: self._small.record("delivered", number, moment))

    async def alone(self, small: SmallDocuments, seconds: float) -> None:
        await self._publish(small, asyncio.create_task(asyncio.sleep(seconds)), self.meters["alone"])

    async def beside(self, small: SmallDocuments, bulk: asyncio.subprocess.Process) -> None:
        """Publish small documents until a portion of large documents has been received."""
        await self._publish(small, asyncio.create_task(self._portion(bulk)), self.meters["beside"])
        await self._bench.wait_clean()

    async def _portion(self, bulk: asyncio.subprocess.Process) -> None:
        assert bulk.stdin is not None
        assert bulk.stdout is not None
        bulk.stdin.write(b"\n")
        line = await bulk.stdout.readline()
        if not line:
            raise Incomplete("The process with the large documents ended.")
        self.large.append(json.loads(line))

    async def _publish(self, small: SmallDocuments, until: "asyncio.Task[None]", meter: gauges.ProcessorMeter) -> None:
        self._small = self._submitter.small = self._receiver.small = small
        meter.start()
        started, published = time.perf_counter(), 0
        while not until.done():
            [number] = self._bench.take_numbers(1)
            small.sent[number] = time.perf_counter()
            self._submitter.publish(number, self._bench.size)
            published += 1
            await asyncio.sleep(max(started + published / self._rate - time.perf_counter(), 0))
        await until
        await small.wait_complete()
        meter.stop()

    def check(self) -> None:
        """Raise Incomplete unless every small document arrived once."""
        self._bench.check_received([self._receiver], range(min(self._receiver.received), self._bench.next_number))


async def measure(bench: phases.Bench, task: BulkTask, rate: float, rounds: int) -> Result:
    """Measure rounds: small documents alone for ``task.seconds``, then beside one portion of large ones."""
    await phases.online(bench, 500)
    alone, beside = SmallDocuments(), SmallDocuments()
    async with AsyncExitStack() as stack:
        bulk = await stack.enter_async_context(_bulk(task))
        load = AlternatingLoad(bench, rate)
        await load.begin(stack)
        for number in range(rounds):
            cli.say(f"round {number + 1} of {rounds}: alone, then beside large documents ...")
            await load.alone(alone, task.seconds)
            await load.beside(beside, bulk)
        load.check()
    latencies = {"alone": alone.figures(), "beside": beside.figures()}
    p99_ms = {name: figures["delivered_p99_ms"] for name, figures in latencies.items()}
    return {
        **latencies, "large": load.large,
        "cpu_percent": {name: _percent(meter) for name, meter in load.meters.items()},
        "small_p99_ms_alone": p99_ms["alone"], "small_p99_ms_beside": p99_ms["beside"],
        "ratio": round(p99_ms["beside"] / p99_ms["alone"], 2),
    }  # fmt: skip


def task_of(bench: phases.Bench, path: Path, size: int, per_s: float, seconds: float) -> BulkTask:
    """Return the task of the process with the large documents."""
    nodes = bench.network.nodes
    return BulkTask(nodes[A].url, nodes[B].url, nodes[B].place.node_id, str(path), size, per_s, seconds, bench.encrypt)


def _percent(meter: gauges.ProcessorMeter) -> dict[str, float]:
    """Return the processor time of each process in percent of one core."""
    return {name: round(100 * used / meter.seconds, 1) for name, used in meter.used.items()}


@asynccontextmanager
async def _bulk(task: BulkTask) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "bench.bulk", json.dumps(task),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        env={**os.environ, "TMPDIR": str(Path(task.path).parent)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"ready\n":
            raise Incomplete("The process with the large documents did not start.")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
