"""``./run bench peers``: our own nodes beside a chain of RabbitMQ virtual hosts, in one run on one machine.

Both carry documents from A by a hub to B, and one receipt for each back to A. What each side does and promises:

- Processes. Ours: hub, A and B, each with its own Postgres. The chain (``chain``): one RabbitMQ with three virtual
  hosts and four shovels.
- A's application has 1,000 documents unconfirmed. Ours confirms what is committed, with fsync; RabbitMQ what it has
  written with fsync, or what its consumer has acknowledged before that.
- Way. Ours: A and B store, the hub forwards from memory. The chain: each of the three queues stores, and a shovel
  acknowledges a message when the next virtual host has confirmed it.
- B's application. Ours acknowledges what it has read, and the nodes exchange receipts, many in a packet. That of the
  chain publishes each receipt as a message of its own, and acknowledges the document when that is confirmed.
- Time ends, ours: when nothing is left in any queue; the chain: when the last receipt is at A's application.
- Promised. Both: no document is lost by the end of any process. The chain: at least once, and what it repeats the
  applications have to recognise. Ours: each document once at B, an outcome for each despite any loss on the way, order
  by key, a ledger of every step.

They take turns, so that whatever else the machine does meets both; who rests costs next to nothing, and what has been
written is on the disk before the next round begins. Rates are medians over the rounds, the ratio is the median of the
ratios within each round. The number of receipts under way decides about the chain's rate: an application that waits for
each confirm before the next receipt (--receipts 1) gets a fraction of it. Without rabbitmq-server our nodes are
measured alone, and what needs it is null.
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

WARM_UP = 500
SUMMARY = """
{messages} documents of {size} bytes a round, {rounds} rounds in turns; {cores} cores, load {load_1m}
  our nodes        {online_per_s}/s until all nodes are clean, {online_cpu_us} µs of processor time a document
  RabbitMQ chain   {chain_per_s}/s until the last receipt, {chain_cpu_us} µs
  ratio            {ratio_chain}
"""


def main(argv: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = cli.parser_of("peers", __doc__)
    parser.add_argument("--messages", type=cli.count, default=60_000, metavar="N", help="documents in a round (60000)")
    parser.add_argument("--rounds", type=cli.count, default=3, metavar="N", help="rounds of each (3)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    parser.add_argument(
        "--receipts", type=cli.count, default=PREFETCH, metavar="N",
        help=f"receipts that B's application of the chain has unconfirmed at most ({PREFETCH})",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    with ExitStack() as stack:
        cli.end_in_order()
        try:
            rabbitmq = _started(stack)
        except KeyboardInterrupt:
            return cli.INTERRUPTED
        return cli.in_folder(
            lambda folder: run(folder, rabbitmq, arguments), arguments, lambda found: SUMMARY.format(**found)
        )


def _started(stack: ExitStack) -> RabbitServer | None:
    if not is_installed():
        say(f"{PROGRAM} is not installed, so our nodes are measured alone (Debian: apt-get install rabbitmq-server)")
        return None
    say("starting RabbitMQ with three virtual hosts and four shovels ...")
    return stack.enter_context(server(chain.PLUGINS, chain.definitions))


async def run(folder: Path, rabbitmq: RabbitServer | None, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all rounds; return the figures."""
    load = cli.load_average()
    say("starting a hub and two institutions ...")
    async with BenchNetwork(folder) as network:
        of_chain = chain.RunningChain(rabbitmq.port, arguments.size, arguments.receipts) if rabbitmq else None
        if of_chain is not None:
            await of_chain.begin()
        try:
            found = await network.watched(
                _rounds(phases.Bench(network, arguments.size), of_chain, rabbitmq, arguments.messages, arguments.rounds)
            )
        finally:
            if of_chain is not None:
                await of_chain.end()
    chosen = {name: getattr(arguments, name) for name in ("messages", "rounds", "size", "receipts")}
    return {**chosen, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **found}


async def _rounds(
    bench: phases.Bench, of_chain: chain.RunningChain | None, rabbitmq: RabbitServer | None, messages: int, rounds: int
) -> dict[str, Any]:
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    await phases.online(bench, min(WARM_UP, messages))
    if of_chain is not None:
        await of_chain.measure(min(WARM_UP, messages))
    for number in range(1, rounds + 1):
        if of_chain is not None and rabbitmq is not None:
            say(f"round {number}: {messages} documents through the chain ...")
            await asyncio.to_thread(os.sync)  # so that neither side waits for earlier writes of the other
            before = gauges.session_s(rabbitmq.session)
            per_s = round(await of_chain.measure(messages))
            used = gauges.session_s(rabbitmq.session) - before
            theirs.append({"per_s": per_s, "cpu_us": round(used / messages * 1e6, 1)})
            show("chain", theirs[-1])
        say(f"round {number}: {messages} documents through our nodes ...")
        await asyncio.to_thread(os.sync)
        ours.append(await phases.online(bench, messages))
        show("online", ours[-1])
    return {**figures(ours, theirs), **bench.account}


def figures(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of the rounds; null where there is no chain."""
    ratios = [our["per_s"] / their["per_s"] for our, their in zip(ours, theirs, strict=False)]
    return {
        "chain_per_s": round(median(their["per_s"] for their in theirs)) if theirs else None,
        "chain_cpu_us": median(their["cpu_us"] for their in theirs) if theirs else None,
        "online_per_s": round(median(our["per_s"] for our in ours)),
        "online_ack2_per_s": round(median(our["ack2_per_s"] for our in ours)),
        "online_cpu_us": median(our["cpu_us"] for our in ours),
        "ratio_chain": round(median(ratios), 3) if ratios else None,
    }
