"""What is measured of each version: everyday rates, full speed, the start of a node.

Each part returns figures of one round. Processor time is that of the nodes and their Postgres, without the
applications.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench import gauges, phases
from bench.network import A, BenchNetwork
from bench.rabbitmq.chain import RunningChain
from bench.rabbitmq.server import RabbitServer

Figures = dict[str, float]
IDLE_S = 4.0  # rest of a started node before its memory is read
EVERYDAY_PER_S, SLOW_PER_S = 100.0, 10.0


@dataclass(frozen=True, slots=True)
class RoundExtent:
    """How much is measured in a round."""

    seconds: float  #: of each everyday rate
    messages: int  #: at full speed


async def start(bench: phases.Bench, extent: RoundExtent) -> Figures:
    """Restart A: processor time of its process until it serves, and its memory at rest."""
    network = bench.network
    await network.stop(A)
    await network.start(A)
    start_s = gauges.processor_s(network)[A]
    await asyncio.sleep(IDLE_S)
    return {"start_cpu": round(start_s, 3), "idle_rss": gauges.rss_mib(network)[A]}


async def everyday(bench: phases.Bench, extent: RoundExtent) -> Figures:
    """Documents at EVERYDAY_PER_S: processor time of each, and latency."""
    result = await phases.latency(bench, int(extent.seconds * EVERYDAY_PER_S), EVERYDAY_PER_S)
    return {"everyday_cpu": result["cpu_us"], "everyday_p50": result["p50_ms"]}


async def everyday_10(bench: phases.Bench, extent: RoundExtent) -> Figures:
    """Documents at SLOW_PER_S: processor time of each."""
    result = await phases.latency(bench, int(extent.seconds * SLOW_PER_S), SLOW_PER_S)
    return {"everyday_10_cpu": result["cpu_us"]}


async def saturated(bench: phases.Bench, extent: RoundExtent) -> Figures:
    """Documents at full speed: processor time of each, and the rate until all nodes are clean."""
    await asyncio.to_thread(os.sync)
    result = await phases.online(bench, extent.messages)
    return {"saturated_cpu": result["cpu_us"], "rate": result["per_s"]}


# In this order: a started node has cold caches, and writes of full speed last longer than it.
PARTS: dict[str, Callable[[phases.Bench, RoundExtent], Awaitable[Figures]]] = {
    "start": start,
    "everyday": everyday,
    "everyday_10": everyday_10,
    "saturated": saturated,
}


async def chain(running: RunningChain, rabbitmq: RabbitServer, extent: RoundExtent) -> Figures:
    """Documents through the RabbitMQ chain at EVERYDAY_PER_S: processor time of each."""
    messages = int(extent.seconds * EVERYDAY_PER_S)
    before = gauges.session_s(rabbitmq.session)
    await running.measure(messages, EVERYDAY_PER_S)
    return {"everyday_chain": round((gauges.session_s(rabbitmq.session) - before) / messages * 1e6, 1)}


async def warm_up(network: BenchNetwork, size: int, messages: int) -> phases.Bench:
    """Send documents at full speed, and return the phases of this network."""
    bench = phases.Bench(network, size)
    await phases.online(bench, messages)
    return bench
