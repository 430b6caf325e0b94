"""``./run bench large --beside``: the latency of small documents, alone and beside large ones, in turns within one run.

Rounds alternate: small documents alone, then at the same rate beside large ones, which another process (``bulk``) sends
and receives. Both figures come from the same minutes, so their ratio holds on a shared machine, too. The stages are
those that applications see: confirmed by A, received at B, event ``delivered`` at A. Used by ``large``.
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
from bench.bulk import Portion
from bench.errors import Incomplete, Stuck
from bench.load import SILENCE_S_MAX, SIZE_MIN, LoadListener, LoadReceiver, LoadSubmitter
from bench.network import A, B
from semq.amqp.events import Delivered

Result = dict[str, Any]
STAGES = ("confirmed", "received", "delivered")


@dataclass(slots=True)
class Small:
    """The small documents of one run: when each was published, and how long it took to each stage, in milliseconds."""

    sent: dict[int, float] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, stage: str, number: int, moment: float) -> None:
        """Note that a document has reached a stage."""
        if number in self.sent:
            self.took[stage].append((moment - self.sent[number]) * 1000)
            self.moved.set()

    async def all_there(self) -> None:
        """Wait until each document has reached all stages. Raises Stuck."""
        while any(len(took) < len(self.sent) for took in self.took.values()):
            self.moved.clear()
            try:
                async with asyncio.timeout(SILENCE_S_MAX):
                    await self.moved.wait()
            except TimeoutError as error:
                raise Stuck(f"{len(self.took['delivered'])} of {len(self.sent)} documents were delivered.") from error

    def figures(self) -> Result:
        """Return the quantiles of each stage."""
        cuts = {stage: quantiles(took, n=100, method="inclusive") for stage, took in self.took.items()}
        return {
            "messages": len(self.sent),
            **{f"{stage}_{name}_ms": round(cut[at], 2) for stage, cut in cuts.items() for name, at in PERCENTILES},
        }


PERCENTILES = (("p50", 49), ("p90", 89), ("p99", 98))


class SmallSubmitter(LoadSubmitter):
    """Notes the confirms."""

    small: Small

    def _settled(self, settled: list[tuple[Any, bool]]) -> None:
        now = time.perf_counter()
        super()._settled(settled)
        for number, _ in settled:
            self.small.note("confirmed", number, now)


class SmallReceiver(LoadReceiver):
    """Notes the arrivals at B's application."""

    small: Small

    def _take(self, batch: list[Delivered]) -> None:
        now = time.perf_counter()
        super()._take(batch)
        for delivered in batch:
            self.small.note("received", int.from_bytes(delivered.body[:SIZE_MIN], "big"), now)


class Beside:
    """The applications with small documents, and the process with large ones."""

    def __init__(self, bench: phases.Bench, rate: float) -> None:
        self._bench = bench
        self._rate = rate
        self.meters = {name: gauges.ProcessorMeter(bench.network) for name in ("alone", "beside")}
        self.large: list[Result] = []

    async def begin(self, stack: AsyncExitStack) -> None:
        """Log in."""
        network = self._bench.network
        self._submitter = await SmallSubmitter.connect(network, A)
        self._receiver = await SmallReceiver.connect(network, B)
        self._listener = await LoadListener.connect(network, A)
        for each in (self._submitter, self._receiver, self._listener):
            stack.push_async_callback(each.close)
        await self._submitter.begin(self._bench.targets, self._bench.encrypt)
        await self._receiver.begin(self._bench.size_of)
        await self._listener.begin(lambda number, moment: self._small.note("delivered", number, moment))

    async def alone(self, small: Small, seconds: float) -> None:
        """Publish small documents for some seconds."""
        await self._publish(small, asyncio.create_task(asyncio.sleep(seconds)), self.meters["alone"])

    async def beside(self, small: Small, bulk: asyncio.subprocess.Process) -> None:
        """Publish small documents until the other process has received its portion."""
        await self._publish(small, asyncio.create_task(self._portion(bulk)), self.meters["beside"])
        await self._bench.clean()

    async def _portion(self, bulk: asyncio.subprocess.Process) -> None:
        assert bulk.stdin is not None
        assert bulk.stdout is not None
        bulk.stdin.write(b"\n")
        line = await bulk.stdout.readline()
        if not line:
            raise Incomplete("The process with the large documents ended.")
        self.large.append(json.loads(line))

    async def _publish(self, small: Small, until: "asyncio.Task[None]", meter: gauges.ProcessorMeter) -> None:
        self._small = self._submitter.small = self._receiver.small = small
        meter.start()
        started, place = time.perf_counter(), 0
        while not until.done():
            [number] = self._bench.numbers(1)
            small.sent[number] = time.perf_counter()
            self._submitter.publish(number, self._bench.size)
            place += 1
            await asyncio.sleep(max(started + place / self._rate - time.perf_counter(), 0))
        await until
        await small.all_there()
        meter.stop()

    def check(self) -> None:
        """Check that every small document arrived once. Raises Incomplete."""
        self._bench.settle([self._receiver], range(min(self._receiver.seen), self._bench.next_number))


async def measure(bench: phases.Bench, portion: Portion, rate: float, rounds: int) -> Result:
    """Measure rounds of ``portion.seconds`` alone and one portion of large documents each."""
    await phases.online(bench, 500)
    alone, beside = Small(), Small()
    async with AsyncExitStack() as stack:
        bulk = await stack.enter_async_context(_bulk(portion))
        both = Beside(bench, rate)
        await both.begin(stack)
        for number in range(rounds):
            cli.say(f"round {number + 1} of {rounds}: alone, then beside large documents ...")
            await both.alone(alone, portion.seconds)
            await both.beside(beside, bulk)
        both.check()
    found = {"alone": alone.figures(), "beside": beside.figures()}
    p99_ms = {name: figures["delivered_p99_ms"] for name, figures in found.items()}
    return {
        **found, "large": both.large,
        "cpu_percent": {name: _percent(meter) for name, meter in both.meters.items()},
        "small_p99_ms_alone": p99_ms["alone"], "small_p99_ms_beside": p99_ms["beside"],
        "ratio": round(p99_ms["beside"] / p99_ms["alone"], 2),
    }  # fmt: skip


def portion_of(bench: phases.Bench, path: Path, size: int, per_s: float, seconds: float) -> Portion:
    """Return what the other process sends."""
    nodes = bench.network.nodes
    return Portion(nodes[A].url, nodes[B].url, nodes[B].place.node_id, str(path), size, per_s, seconds, bench.encrypt)


def _percent(meter: gauges.ProcessorMeter) -> dict[str, float]:
    """Return the processor time of each row in percent of one core."""
    return {name: round(100 * used / meter.seconds, 1) for name, used in meter.used.items()}


@asynccontextmanager
async def _bulk(portion: Portion) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "bench.bulk", json.dumps(portion),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        env={**os.environ, "TMPDIR": str(Path(portion.path).parent)},
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
