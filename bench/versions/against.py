"""``./run bench against COMMIT``: processor time and latency of this version divided by those of an older one.

The older commit is checked out in a temporary folder. Both versions run as networks of their own (a hub, A and B, each
with its Postgres) and take turns, so that other load of the machine affects both. Each ratio is the median of the
ratios of the rounds, new divided by old:

| ratio                | of                                                                                          |
|----------------------|---------------------------------------------------------------------------------------------|
| everyday_cpu_ratio   | processor time of a document at 100 a second                                                |
| everyday_p50_ratio   | median latency there, from publish to the event ``delivered``                               |
| everyday_10_cpu_ratio | processor time of a document at 10 a second                                                |
| everyday_chain_ratio | new version divided by a chain of three RabbitMQ virtual hosts, at 100 a second             |
| saturated_cpu_ratio  | processor time of a document at full speed                                                  |
| rate_ratio           | documents per second at full speed, until all nodes are clean                               |
| start_cpu_ratio      | processor time of A's process from its start until it serves, with an existing database     |
| idle_rss_ratio       | resident memory of A's process after some seconds at rest                                   |

Ratios that were not measured are null: with ``--only``, and that of the chain without rabbitmq-server. Needs git.
"""

import argparse
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench import cli
from bench.cli import say, show
from bench.load import PREFETCH
from bench.network import BenchNetwork
from bench.phases import Bench
from bench.rabbitmq.chain import RunningChain
from bench.rabbitmq.peers import start_rabbitmq
from bench.rabbitmq.server import RabbitServer
from bench.versions import parts
from bench.versions.checkout import checkout

OLD, NEW, CHAIN = "old", "new", "chain"
WARM_UP = 500  # documents
RATIOS = (
    "everyday_cpu", "everyday_10_cpu", "everyday_p50", "saturated_cpu", "rate", "start_cpu", "idle_rss",
)  # fmt: skip
SUMMARY = """
This version divided by {commit}, medians of {rounds} rounds in turns; {cores} cores, load {load_1m}
  everyday   {everyday_cpu_ratio} processor time at 100/s ({everyday_cpu_old} -> {everyday_cpu_new} µs), \
{everyday_p50_ratio} p50 ({everyday_p50_old} -> {everyday_p50_new} ms)
             {everyday_chain_ratio} of the RabbitMQ chain ({everyday_chain_us} µs)
             {everyday_10_cpu_ratio} processor time at 10/s ({everyday_10_cpu_old} -> {everyday_10_cpu_new} µs)
  saturated  {saturated_cpu_ratio} processor time ({saturated_cpu_old} -> {saturated_cpu_new} µs), \
{rate_ratio} rate ({rate_old} -> {rate_new}/s)
  start      {start_cpu_ratio} processor time ({start_cpu_old} -> {start_cpu_new} s)
  idle       {idle_rss_ratio} memory ({idle_rss_old} -> {idle_rss_new} MiB)
"""


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("against", __doc__)
    parser.add_argument("commit", metavar="COMMIT", help="the older commit")
    parser.add_argument("--rounds", type=cli.count, default=4, metavar="N", help="rounds of each version (4)")
    parser.add_argument(
        "--seconds", type=cli.positive, default=8.0, metavar="S", help="seconds of each everyday rate in a round (8)"
    )
    parser.add_argument("--messages", type=cli.count, default=5000, metavar="N", help="documents at full speed (5000)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    parser.add_argument(
        "--only", action="append", choices=[*parts.PARTS, CHAIN], metavar="PART",
        help=f"measure only this part; can be repeated ({', '.join([*parts.PARTS, CHAIN])})",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    selected = set(arguments.only or [*parts.PARTS, CHAIN])
    with ExitStack() as stack:
        cli.exit_on_sigterm()
        try:
            rabbitmq = start_rabbitmq(stack) if CHAIN in selected else None
        except KeyboardInterrupt:
            return cli.INTERRUPTED
        return cli.in_folder(
            lambda folder: run(folder, rabbitmq, selected, arguments), arguments, lambda found: SUMMARY.format(**found)
        )


async def run(
    folder: Path, rabbitmq: RabbitServer | None, selected: set[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run all rounds; return the figures."""
    load = cli.load_average()
    extent = parts.RoundExtent(arguments.seconds, arguments.messages)
    if selected == {CHAIN}:
        selected = {CHAIN, "everyday"}  # the ratio needs both
    async with AsyncExitStack() as stack:
        say(f"checking out {arguments.commit} ...")
        older = stack.enter_context(checkout(arguments.commit, folder / "checkout"))
        say("starting a hub and two institutions of each version ...")
        networks = {OLD: BenchNetwork(folder / OLD, program=older.program), NEW: BenchNetwork(folder / NEW)}
        benches: dict[str, Bench] = {}
        for name, network in networks.items():
            await stack.enter_async_context(network)
            benches[name] = await network.watched(parts.warm_up(network, arguments.size, WARM_UP))
        chain = await _begin_chain(stack, rabbitmq, arguments.size)
        rounds: list[dict[str, parts.Figures]] = []
        for number in range(1, arguments.rounds + 1):
            figures: dict[str, parts.Figures] = {OLD: {}, NEW: {}}
            for part, measure in parts.PARTS.items():
                # Each version is the first one in every other round.
                for name in (OLD, NEW) if number % 2 else (NEW, OLD):
                    if part in selected:
                        say(f"round {number}: {part}, {name} version ...")
                        figures[name] |= await networks[name].watched(measure(benches[name], extent))
            if chain is not None and rabbitmq is not None:
                say(f"round {number}: the RabbitMQ chain ...")
                figures[CHAIN] = await parts.chain(chain, rabbitmq, extent)
            show(f"round {number}", figures)
            rounds.append(figures)
    options = {name: getattr(arguments, name) for name in ("commit", "rounds", "seconds", "messages", "size")}
    return {**options, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **summary(rounds)}


async def _begin_chain(stack: AsyncExitStack, rabbitmq: RabbitServer | None, size: int) -> RunningChain | None:
    if rabbitmq is None:
        return None
    chain = RunningChain(rabbitmq.port, size, PREFETCH)
    await chain.begin()
    stack.push_async_callback(chain.end)
    await chain.measure(WARM_UP)
    return chain


def summary(rounds: list[dict[str, parts.Figures]]) -> dict[str, float | None]:
    """Return medians of the rounds and of their ratios; None where a part was not measured."""
    found: dict[str, float | None] = {}
    for name in RATIOS:
        pairs = [(one[OLD][name], one[NEW][name]) for one in rounds if name in one[OLD]]
        found[f"{name}_ratio"] = _median([new / old for old, new in pairs])
        for version in (OLD, NEW):
            found[f"{name}_{version}"] = _median([one[version][name] for one in rounds if name in one[version]])
    chains = [(one[NEW]["everyday_cpu"], one[CHAIN]["everyday_chain"]) for one in rounds if CHAIN in one]
    found["everyday_chain_ratio"] = _median([new / chain for new, chain in chains])
    found["everyday_chain_us"] = _median([chain for _, chain in chains])
    return found


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 3) if values else None
