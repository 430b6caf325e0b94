"""``./run bench peers``: SEMQ's nodes compared with a chain of RabbitMQ virtual hosts, on one machine.

Both transport documents from A through a hub to B, and a receipt for each document back to A.

| subject         | SEMQ's nodes                                 | the chain (``chain``)                               |
|-----------------|----------------------------------------------|-----------------------------------------------------|
| processes       | hub, A and B, each with its own Postgres     | one RabbitMQ with three virtual hosts, four shovels |
| confirm to A    | after a commit with fsync                    | after a write with fsync, or earlier if the         |
|                 |                                              | consumer has acknowledged the message               |
| way             | A and B store, the hub forwards from memory  | each of the three queues stores; a shovel           |
|                 |                                              | acknowledges when the next host has confirmed       |
| B's application | acknowledges; the nodes exchange receipts,   | publishes each receipt as a message of its own, and |
|                 | many in a packet                             | acknowledges the document when that is confirmed    |
| end of the time | all queues are empty                         | the last receipt is at A's application              |
| guarantees      | each document once at B, an outcome for each | at least once; the applications have to recognise   |
|                 | document, order by key, a ledger             | repeated documents                                  |

A's application has at most 1,000 documents unconfirmed. On both sides no document is lost if a process ends.

The two sides take turns, so that other load of the machine affects both. Rates are medians of the rounds; the ratio is
the median of the ratios of the rounds. With ``--receipts 1``, the chain's application waits for each confirm, and the
rate is much lower. Without rabbitmq-server, the figures of the chain are null.
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench import cli, gauges, phases
from bench.cli import say, show
from bench.load import PREFETCH
from bench.network import BenchNetwork
from bench.rabbitmq import chain
from bench.rabbitmq.server import PROGRAM, RabbitServer, is_installed, server

WARM_UP = 500  # documents before the first round
SUMMARY = """
{messages} documents of {size} bytes a round, {rounds} rounds in turns; {cores} cores, load {load_1m}
  SEMQ's nodes     {online_per_s}/s until all nodes are clean, {online_cpu_us} µs of processor time a document
  RabbitMQ chain   {chain_per_s}/s until the last receipt, {chain_cpu_us} µs
  ratio            {ratio_chain}
"""


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("peers", __doc__)
    parser.add_argument("--messages", type=cli.count, default=60_000, metavar="N", help="documents in a round (60000)")
    parser.add_argument("--rounds", type=cli.count, default=3, metavar="N", help="rounds of each side (3)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    parser.add_argument(
        "--receipts", type=cli.count, default=PREFETCH, metavar="N",
        help=f"maximum of unconfirmed receipts of the chain's application at B ({PREFETCH})",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    with ExitStack() as stack:
        cli.exit_on_sigterm()
        try:
            rabbitmq = start_rabbitmq(stack)
        except KeyboardInterrupt:
            return cli.INTERRUPTED
        return cli.in_folder(
            lambda folder: run(folder, rabbitmq, arguments), arguments, lambda result: SUMMARY.format(**result)
        )


def start_rabbitmq(stack: ExitStack) -> RabbitServer | None:
    """Start RabbitMQ for the chain, if it is installed."""
    if not is_installed():
        say(f"{PROGRAM} is not installed, so only SEMQ's nodes are measured (Debian: apt-get install rabbitmq-server)")
        return None
    say("starting RabbitMQ with three virtual hosts and four shovels ...")
    return stack.enter_context(server(chain.PLUGINS, chain.definitions))


async def run(folder: Path, rabbitmq: RabbitServer | None, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all rounds; return the figures."""
    load = cli.load_average()
    say("starting a hub and two institutions ...")
    async with BenchNetwork(folder) as network:
        running_chain = chain.RunningChain(rabbitmq.port, arguments.size, arguments.receipts) if rabbitmq else None
        if running_chain is not None:
            await running_chain.begin()
        try:
            result = await network.watched(
                _rounds(
                    phases.Bench(network, arguments.size), running_chain, rabbitmq, arguments.messages, arguments.rounds
                )
            )
        finally:
            if running_chain is not None:
                await running_chain.end()
    options = {name: getattr(arguments, name) for name in ("messages", "rounds", "size", "receipts")}
    return {**options, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **result}


async def _rounds(
    bench: phases.Bench,
    running_chain: chain.RunningChain | None,
    rabbitmq: RabbitServer | None,
    messages: int,
    rounds: int,
) -> dict[str, Any]:
    semq_rounds: list[dict[str, Any]] = []
    chain_rounds: list[dict[str, Any]] = []
    await phases.online(bench, min(WARM_UP, messages))
    if running_chain is not None:
        await running_chain.measure(min(WARM_UP, messages))
    for number in range(1, rounds + 1):
        if running_chain is not None and rabbitmq is not None:
            say(f"round {number}: {messages} documents through the chain ...")
            await asyncio.to_thread(os.sync)  # so that no side waits for the other's writes
            before = gauges.session_s(rabbitmq.session)
            per_s = round(await running_chain.measure(messages))
            used = gauges.session_s(rabbitmq.session) - before
            chain_rounds.append({"per_s": per_s, "cpu_us": round(used / messages * 1e6, 1)})
            show("chain", chain_rounds[-1])
        say(f"round {number}: {messages} documents through SEMQ's nodes ...")
        await asyncio.to_thread(os.sync)
        semq_rounds.append(await phases.online(bench, messages))
        show("online", semq_rounds[-1])
    return {**figures(semq_rounds, chain_rounds), **bench.faults}


def figures(semq_rounds: Sequence[dict[str, Any]], chain_rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of the rounds; figures of an unmeasured chain are None."""
    ratios = [own["per_s"] / peer["per_s"] for own, peer in zip(semq_rounds, chain_rounds, strict=False)]
    return {
        "chain_per_s": round(median(row["per_s"] for row in chain_rounds)) if chain_rounds else None,
        "chain_cpu_us": median(row["cpu_us"] for row in chain_rounds) if chain_rounds else None,
        "online_per_s": round(median(row["per_s"] for row in semq_rounds)),
        "online_ack2_per_s": round(median(row["ack2_per_s"] for row in semq_rounds)),
        "online_cpu_us": median(row["cpu_us"] for row in semq_rounds),
        "ratio_chain": round(median(ratios), 3) if ratios else None,
    }
