"""``./run bench cluster``: processor time of a document through a hub of two instances, compared with one process.

The same documents go from A to B, in turns, through

- one process of the hub;
- two instances of the hub, each with a store of its own, with A at one and B at the other. The broker between them is a
  node, and its processor time is included;
- two instances with RabbitMQ as the broker, if RabbitMQ is installed; otherwise its figures are null.

A document and its receipt pass the broker once each. ``overhead`` is the additional processor time of two instances
with a node as the broker, divided by the processor time of one process. ``carrier_us`` is the processor time of that
broker for a document. All processes share the cores of one machine: compare processor times, not rates.
"""

import argparse
import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import cli, gauges, phases
from bench.cli import say, show
from bench.network import BenchNetwork
from bench.rabbitmq.server import PROGRAM, RabbitServer, is_installed, server
from semq.installation.configuration import CARRIER

WARM_UP = 500  # documents before the first round
INSTANCES = 2
ONE, TWO, TWO_RABBITMQ = "one", "two", "two_rabbitmq"
SUMMARY = """
{messages} documents of {size} bytes a round, {rounds} rounds in turns; {cores} cores, load {load_1m}
  one process           {one_cpu_us} µs of processor time a document, {one_per_s}/s
  two over a node       {two_cpu_us} µs, of which {carrier_us} in the broker; {two_per_s}/s
  two over RabbitMQ     {two_rabbitmq_cpu_us} µs, {two_rabbitmq_per_s}/s
  overhead              {overhead}
"""


@dataclass
class NetworkUnderTest:
    """A network with one way to run the hub, and its figures."""

    bench: phases.Bench
    broker: RabbitServer | None = None  #: None unless it is RabbitMQ
    rounds: list[dict[str, Any]] = field(default_factory=list)

    async def measure(self, messages: int) -> dict[str, Any]:
        """Run one round, and return its figures with the processor time of the broker."""
        await asyncio.to_thread(os.sync)  # so that a round does not wait for earlier disk writes
        before = 0.0 if self.broker is None else gauges.session_s(self.broker.session)
        result = await self.bench.network.watched(phases.online(self.bench, messages))
        by_process: dict[str, float] = result["cpu_us_by_process"]
        carrier_us = sum(used for name, used in by_process.items() if name.partition(" ")[0] == CARRIER)
        if self.broker is not None:
            carrier_us = (gauges.session_s(self.broker.session) - before) / messages * 1e6
            result["cpu_us"] = round(result["cpu_us"] + carrier_us, 1)
        return {**result, "carrier_us": round(carrier_us, 1)}


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("cluster", __doc__)
    parser.add_argument("--messages", type=cli.count, default=20_000, metavar="N", help="documents in a round (20000)")
    parser.add_argument("--rounds", type=cli.count, default=3, metavar="N", help="rounds through each kind of hub (3)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    arguments = parser.parse_args(argv)
    cli.exit_on_sigterm()
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda result: SUMMARY.format(**result))


async def run(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all rounds; return the figures."""
    load = cli.load_average()
    async with AsyncExitStack() as stack:
        say("starting a hub of one process and a hub of two instances, each with two institutions ...")
        under_test = {
            ONE: NetworkUnderTest(await _bench(stack, folder / ONE, arguments.size)),
            TWO: NetworkUnderTest(await _bench(stack, folder / TWO, arguments.size, instances=INSTANCES)),
        }
        if is_installed():
            say("starting two instances over RabbitMQ ...")
            broker = stack.enter_context(server())
            url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
            bench = await _bench(stack, folder / TWO_RABBITMQ, arguments.size, instances=INSTANCES, carrier=url)
            under_test[TWO_RABBITMQ] = NetworkUnderTest(bench, broker)
        else:
            say(f"{PROGRAM} is not installed, so it is left out (Debian: apt-get install rabbitmq-server)")
        for network in under_test.values():
            await network.measure(min(WARM_UP, arguments.messages))
        for number in range(1, arguments.rounds + 1):
            for name, network in under_test.items():
                say(f"round {number}: {arguments.messages} documents, {name} ...")
                network.rounds.append(await network.measure(arguments.messages))
                show(name, network.rounds[-1])
    options = {name: getattr(arguments, name) for name in ("messages", "rounds", "size")}
    return {**options, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **figures(under_test)}


def figures(under_test: dict[str, NetworkUnderTest]) -> dict[str, Any]:
    """Return the summary: medians of the rounds; None for RabbitMQ if it is not installed."""
    result: dict[str, Any] = {}
    for name in (ONE, TWO, TWO_RABBITMQ):
        rounds = under_test[name].rounds if name in under_test else []
        for figure in ("cpu_us", "per_s"):
            result[f"{name}_{figure}"] = median(row[figure] for row in rounds) if rounds else None
    pairs = zip(under_test[ONE].rounds, under_test[TWO].rounds, strict=True)
    result["carrier_us"] = median(row["carrier_us"] for row in under_test[TWO].rounds)
    result["overhead"] = round(median(two["cpu_us"] / one["cpu_us"] for one, two in pairs) - 1, 3)
    return result


async def _bench(stack: AsyncExitStack, folder: Path, size: int, **shape: Any) -> phases.Bench:
    return phases.Bench(await stack.enter_async_context(BenchNetwork(folder, **shape)), size)
