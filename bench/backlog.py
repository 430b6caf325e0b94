"""``./run bench --backlog N``: what it costs that documents wait for an institution which is away.

They are submitted at A and stored at the hub; then A is started again, and the processor time of all nodes is taken
while they have nothing to do but wait. The documents stay, beside all phases that follow. Used by ``__main__``.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from bench import gauges, phases
from bench.load import Submitter
from bench.network import ABSENT, HUB, A

IDLE_S = 20.0


async def measure(bench: phases.Bench, documents: int) -> dict[str, Any]:
    """The rate of storing, the time of a start with these rows, and the load of a node that waits."""
    network, numbers = bench.network, bench.numbers(documents)
    async with AsyncExitStack() as stack:
        at_hub = await bench.watcher(stack, HUB)
        submitter = await (await Submitter.connect(network, A)).begin([ABSENT])
        stack.push_async_callback(submitter.close)
        kept = await at_hub.count("stored") + documents
        began = time.perf_counter()
        submitting = submitter.submit(numbers.start, documents, bench.size)
        _, stored_at = await asyncio.gather(submitting, at_hub.reaches("stored", kept))
        await network.stop(A)
        stopped = time.perf_counter()
        await network.start(A)
        await at_hub.sees_online([network.nodes[A].node_id])
        started = time.perf_counter()
    meter = gauges.Meter(network)
    meter.start()
    await asyncio.sleep(IDLE_S)
    meter.stop()
    waiting = {name: round(100 * used / meter.seconds, 1) for name, used in meter.used.items() if name != gauges.LOAD}
    return {
        "messages": documents, "store_per_s": round(documents / (stored_at - began)),
        "start_s": round(started - stopped, 2), "idle_percent_of_a_core": waiting,
        "rss_mib": gauges.rss_mib(network),
    }  # fmt: skip
