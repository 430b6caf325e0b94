"""``./run bench --backlog N``: the cost of documents that wait for an offline institution.

The documents are submitted at A and stored at the hub. Then A is restarted, and the processor time of all nodes is
measured while nothing happens. The documents stay during all following phases.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from bench import gauges, phases
from bench.load import LoadSubmitter
from bench.network import ABSENT, A
from semq.engine.settings import EngineSettings
from semq.installation.configuration import HUB

IDLE_S = 20.0  # default of --idle


async def measure(bench: phases.Bench, documents: int, idle_s: float = IDLE_S) -> dict[str, Any]:
    """Measure the rate of storing, the time of A's last restart while all wait, and processor time and memory at rest.

    The hub stores at most one window of documents of a stream. A is therefore restarted after each window: a new
    incarnation has new streams.
    """
    network, window = bench.network, EngineSettings().window
    store_s = start_s = 0.0
    for first in range(0, documents, window):
        count = min(window, documents - first)
        store_s += await _store(bench, count)
        start_s = await _restart(bench)
    meter = gauges.ProcessorMeter(network)
    meter.start()
    await asyncio.sleep(idle_s)
    meter.stop()
    idle = {name: round(100 * used / meter.seconds, 1) for name, used in meter.used.items() if name != gauges.LOAD}
    return {
        "messages": documents, "store_per_s": round(documents / store_s), "start_s": round(start_s, 2),
        "idle_percent_of_a_core": idle,
        "rss_mib": gauges.rss_mib(network),
    }  # fmt: skip


async def _store(bench: phases.Bench, count: int) -> float:
    """Submit documents for the absent institution; return the seconds until the hub has stored them."""
    numbers = bench.take_numbers(count)
    async with AsyncExitStack() as stack:
        at_hub = await bench.watcher(stack, HUB)
        submitter = await (await LoadSubmitter.connect(bench.network, A)).begin([ABSENT])
        stack.push_async_callback(submitter.close)
        goal = await at_hub.count("stored") + count
        began = time.perf_counter()
        submitting = submitter.submit(numbers.start, count, bench.size)
        _, stored_at = await asyncio.gather(submitting, at_hub.wait_count("stored", goal))
    return stored_at - began


async def _restart(bench: phases.Bench) -> float:
    """Restart A; return the seconds from the stop until the hub has a session with A again."""
    network = bench.network
    async with AsyncExitStack() as stack:
        at_hub = await bench.watcher(stack, HUB)
        stopped = time.perf_counter()
        await network.stop(A)
        await network.start(A)
        await at_hub.wait_online([network.nodes[A].place.node_id])
        return time.perf_counter() - stopped
