"""``./run bench --large N``: documents of 1 MiB at full speed, and small ones at ``--rate`` at the same time.

This phase shows whether large documents delay small ones or stay in memory.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from bench import gauges, phases

DOCUMENTS = 300
SIZE = 1 << 20
SMALL_S = 5.0  # time for which small documents are submitted
SAMPLE_S = 0.25


async def measure(bench: phases.Bench, rate: float, documents: int, small_max: int) -> dict[str, Any]:
    """Measure from the first large submit at A until all nodes are clean.

    ``rate``: small documents a second; ``small_max``: limit of their number (at least two are sent).
    ``documents``: number of large documents.
    """
    bench.large, bench.large_size = bench.take_numbers(documents), SIZE
    small = bench.take_numbers(max(int(min(SMALL_S * rate, small_max)), 2))
    meter = gauges.ProcessorMeter(bench.network)
    highest: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        receivers, submitter = await bench.receivers(stack), await bench.submitter(stack)
        watcher = await bench.watcher(stack)
        goal = await watcher.count("delivered") + documents + len(small)
        sampling = asyncio.create_task(_sample(bench, highest))
        stack.callback(sampling.cancel)
        meter.start()
        submitting = submitter.submit(bench.large.start, documents, SIZE)
        _, small_latency = await asyncio.gather(submitting, phases.measure_latency(bench, small, rate, stack))
        await watcher.wait_count("delivered", goal)
        await bench.wait_clean()
        meter.stop()
        bench.check_received(receivers, range(bench.large.start, small.stop))
    cpu_us = meter.cpu_us(documents)
    return {
        "large": documents, "size": SIZE, "per_s": round(documents / meter.seconds, 1), "small": small_latency,
        "p99_ms": small_latency["p99_ms"], "cpu_us": gauges.sum_of_nodes(cpu_us), "cpu_us_by_process": cpu_us,
        "rss_mib": gauges.rss_mib(bench.network), "rss_mib_max": max(highest.values()), "rss_mib_highest": highest,
    }  # fmt: skip


async def _sample(bench: phases.Bench, highest: dict[str, float]) -> None:
    while True:
        for name, mib in gauges.rss_mib(bench.network).items():
            highest[name] = max(highest.get(name, 0.0), mib)
        await asyncio.sleep(SAMPLE_S)
