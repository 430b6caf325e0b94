"""``./run bench --backlog N``: the cost of documents that wait for an offline institution.

They are submitted at A and stored at the hub. Then A is restarted, and the processor time of all nodes is measured
while they only wait. The documents stay during all following phases. Used by ``__main__``.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from bench import gauges, phases
from bench.load import LoadSubmitter
from bench.network import ABSENT, A
from semq.installation.configuration import HUB

IDLE_S = 20.0


async def measure(bench: phases.Bench, documents: int) -> dict[str, Any]:
    """Measure the rate of storing, the time of a start with these rows, and the load of a waiting node."""
    network, numbers = bench.network, bench.numbers(documents)
    async with AsyncExitStack() as stack:
        at_hub = await bench.watcher(stack, HUB)
        submitter = await (await LoadSubmitter.connect(network, A)).begin([ABSENT])
        stack.push_async_callback(submitter.close)
        kept = await at_hub.count("stored") + documents
        began = time.perf_counter()
        submitting = submitter.submit(numbers.start, documents, bench.size)
        _, stored_at = await asyncio.gather(submitting, at_hub.reaches("stored", kept))
        await network.stop(A)
        stopped = time.perf_counter()
        await network.start(A)
        await at_hub.sees_online([network.nodes[A].place.node_id])
        started = time.perf_counter()
    meter = gauges.ProcessorMeter(network)
    meter.start()
    await asyncio.sleep(IDLE_S)
    meter.stop()
    waiting = {name: round(100 * used / meter.seconds, 1) for name, used in meter.used.items() if name != gauges.LOAD}
    return {
        "messages": documents, "store_per_s": round(documents / (stored_at - began)),
        "start_s": round(started - stopped, 2), "idle_percent_of_a_core": waiting,
        "rss_mib": gauges.rss_mib(network),
    }  # fmt: skip
