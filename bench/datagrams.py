"""``./run bench datagrams``: documents with @Reliable=0 from A to B as datagrams, beside class 1 on the connection.

A, the hub and B have channels for datagrams, which lead through a UDP relay that loses a part of what it carries
(``--loss``, on each of the two ways). First latency: documents at ``--rate`` with @Reliable=0 and with @Reliable=1 in
turns, from publish to B's application. Then ``--messages`` documents of each kind at full speed (``per_s``: until the
last one has arrived); ``--rate-of-bulk`` bounds that speed. Every document is accounted for: received, lost on a way
according to the receiving end, or by the connection.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench import cli
from bench.cli import Result, say, show
from bench.errors import Incomplete, Stuck
from bench.load import SILENCE_S_MAX, SIZE_MIN, LoadReceiver, LoadSubmitter
from bench.network import NODE_IDS, A, B, BenchNetwork
from bench.udp_relay import free_udp_port
from semq.amqp.events import Delivered
from semq.installation.configuration import HUB, Rows

HUB_NODE = "2.hub"
POLL_S = 0.1
DATAGRAMS, CONNECTION = "datagrams", "connection"
SUMMARY = """
{messages} documents of {size} bytes with @Reliable=0 from A to B, {loss:.0%} of the datagrams lost on each way; \
{cores} cores, load {load_1m}
  datagrams   {received} of {sent} received, {per_s}/s; latency {p50_ms} ms p50, {p99_ms} ms p99 at {rate:g}/s
  connection  {connection_per_s}/s; {connection_p50_ms} ms p50, {connection_p99_ms} ms p99
  as datagrams {as_datagrams}, by the connection {by_connection}; size of a datagram {datagram_bytes} bytes
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("datagrams", __doc__)
    parser.add_argument("--loss", type=_part, default=0.0, metavar="PART", help="part of the datagrams lost (0)")
    parser.add_argument("--messages", type=cli.count, default=5000, metavar="N", help="documents at full speed (5000)")
    parser.add_argument("--size", type=cli.size, default=300, metavar="BYTES", help="of a document (300)")
    parser.add_argument("--rate", type=cli.rate, default=100.0, metavar="PER_S", help="for the latency (100)")
    parser.add_argument("--seconds", type=cli.rate, default=10.0, metavar="N", help="of latency, of each kind (10)")
    parser.add_argument(
        "--rate-of-bulk", type=cli.rate, default=0.0, metavar="PER_S", help="instead of full speed (no bound)"
    )
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda found: SUMMARY.format(**found))


def _part(text: str) -> float:
    """Convert an argument that is a part of the datagrams."""
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError("from 0 to below 1")
    return number


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Start the network, send the documents, and return the figures."""
    load = cli.load_average()
    port = free_udp_port()
    say("starting a hub, A and B ...")
    section: Rows = {"datagrams.host": "127.0.0.1", "datagrams.report_s": 0.5}
    async with relayed(port, arguments.loss) as shown:
        to_hub: Rows = {"datagrams.port": port, "datagrams.advertised_port": shown}
        async with BenchNetwork(folder, every=section, hub=to_hub) as network:
            found = await network.watched(DatagramBench(network).measure(arguments))
    facts = {"loss": arguments.loss, "size": arguments.size, "rate": arguments.rate}
    return {**facts, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **found}


@asynccontextmanager
async def relayed(port: int, loss: float) -> AsyncIterator[int]:
    """Return a port that leads to another one with loss; the same port without loss, as a relay costs time."""
    if not loss:
        yield port
        return
    relay = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "bench.udp_relay", str(port), str(loss),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert relay.stdin is not None
    assert relay.stdout is not None
    try:
        yield int(await relay.stdout.readline())
    finally:
        relay.stdin.close()
        await relay.wait()


class BestEffortSubmitter(LoadSubmitter):
    """Publishes documents of class 1 at A."""

    def use(self, way: str) -> None:
        """Send the next documents as datagrams or on the connection."""
        self._more = {"@SaveFwd": 1, "@Ack2": 0, "@Reliable": 0 if way == DATAGRAMS else 1}


class BestEffortReceiver(LoadReceiver):
    """Notes when each document has arrived at B's application."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.moments: dict[int, float] = {}

    def _take(self, batch: list[Delivered]) -> None:
        now = time.perf_counter()
        for delivered in batch:
            self.moments.setdefault(int.from_bytes(delivered.body[:SIZE_MIN], "big"), now)
        super()._take(batch)


def counted(a: Result, b: Result, hub_a: Result, hub_b: Result) -> tuple[bool, int]:
    """Return whether each end counts what the other one has sent as received or lost, and the number of the lost."""
    lost = [one["lost"] + one["full"] for one in (hub_a, b)]
    return (a["sent"], hub_b["sent"]) == (hub_a["received"] + lost[0], b["received"] + lost[1]), sum(lost)


class DatagramBench:
    """The applications, and the numbers of documents on each part of the way."""

    def __init__(self, network: BenchNetwork) -> None:
        self._network = network
        self._next = 0
        self._size = 0
        self._lost_before = 0

    async def measure(self, arguments: argparse.Namespace) -> Result:
        """Measure latencies, then rates. Raises Incomplete, Stuck."""
        self._size = arguments.size
        await self._opened()
        async with AsyncExitStack() as stack:
            self._submitter = await BestEffortSubmitter.connect(self._network, A)
            self._receiver = await BestEffortReceiver.connect(self._network, B)
            for one in (self._submitter, self._receiver):
                stack.push_async_callback(one.close)
            await self._submitter.begin([NODE_IDS[B]])
            await self._receiver.begin(lambda number: self._size)
            times = {way: await self._latency(way, arguments) for way in (CONNECTION, DATAGRAMS)}
            before = await self._ways()
            rates = {way: await self._rate(way, arguments) for way in (CONNECTION, DATAGRAMS)}
            after = await self._ways()
        if self._receiver.repeated or self._receiver.damaged:
            raise Incomplete(f"{self._receiver.repeated} repeated, {self._receiver.damaged} damaged.")
        sent = after["a"]["sent"] - before["a"]["sent"]
        return {
            "messages": arguments.messages, **rates[DATAGRAMS], **times[DATAGRAMS],
            **{f"connection_{name}": value for name, value in {**rates[CONNECTION], **times[CONNECTION]}.items()},
            "as_datagrams": sent, "by_connection": arguments.messages - sent,
            "lost_to_hub": after["hub_a"]["lost"] - before["hub_a"]["lost"],
            "lost_to_b": after["b"]["lost"] - before["b"]["lost"],
            "datagram_bytes": after["a"]["datagram_bytes"],
        }  # fmt: skip

    async def _ways(self) -> dict[str, Any]:
        """Return the figures of the four ends."""
        a, b, hub = [await self._network.status(name) for name in (A, B, HUB)]
        of_hub = hub["datagrams"]["peers"]
        closed = {"state": "closed"}
        return {
            "a": a["datagrams"]["peers"].get(HUB_NODE, closed), "b": b["datagrams"]["peers"].get(HUB_NODE, closed),
            "hub_a": of_hub.get(f"1.{NODE_IDS[A]}", closed), "hub_b": of_hub.get(f"1.{NODE_IDS[B]}", closed),
        }  # fmt: skip

    async def _opened(self) -> None:
        """Wait until datagrams pass on all ways. Raises Stuck."""
        end = time.perf_counter() + SILENCE_S_MAX
        ways = await self._ways()
        while any(way["state"] != "open" for way in ways.values()):
            if time.perf_counter() > end:
                raise Stuck(f"no datagrams pass: {ways}")
            await asyncio.sleep(POLL_S)
            ways = await self._ways()

    async def _settled(self, numbers: range) -> list[int]:
        """Return the documents that have arrived, when all others count as lost. Raises Stuck."""
        end = time.perf_counter() + SILENCE_S_MAX
        while True:
            ways = await self._ways()
            seen = [number for number in numbers if number in self._receiver.moments]
            is_counted, all_lost = counted(**ways)
            if is_counted and len(seen) + all_lost - self._lost_before == len(numbers):
                self._lost_before = all_lost
                return seen
            if time.perf_counter() > end:
                raise Stuck(f"{len(seen)} of {len(numbers)} received: {ways}")
            await asyncio.sleep(POLL_S)

    def _numbers(self, count: int) -> range:
        first, self._next = self._next, self._next + count
        return range(first, self._next)

    async def _latency(self, way: str, arguments: argparse.Namespace) -> Result:
        say(f"latency, {way} ...")
        self._submitter.use(way)
        sent: dict[int, float] = {}
        numbers = self._numbers(max(round(arguments.rate * arguments.seconds), 2))
        await self._publish(numbers, arguments.rate, sent)
        took = [(self._receiver.moments[number] - sent[number]) * 1000 for number in await self._settled(numbers)]
        cuts = quantiles(took, n=100, method="inclusive")
        show(f"latency, {way}", {"sent": len(numbers), "received": len(took)})
        return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2)}

    async def _publish(self, numbers: range, rate: float, sent: dict[int, float]) -> None:
        started = time.perf_counter()
        for place, number in enumerate(numbers):
            await asyncio.sleep(max(started + place / rate - time.perf_counter(), 0))
            sent[number] = time.perf_counter()
            self._submitter.publish(number, self._size)

    async def _rate(self, way: str, arguments: argparse.Namespace) -> Result:
        say(f"{arguments.messages} documents, {way} ...")
        self._submitter.use(way)
        numbers = self._numbers(arguments.messages)
        began = time.perf_counter()
        if arguments.rate_of_bulk:
            await self._publish(numbers, arguments.rate_of_bulk, {})
        else:
            await self._submitter.submit(numbers.start, len(numbers), self._size)
        seen = await self._settled(numbers)
        if not seen:
            raise Incomplete("Nothing has arrived.")
        last = max(self._receiver.moments[number] for number in seen)
        found = {"sent": len(numbers), "received": len(seen), "per_s": round(len(seen) / (last - began))}
        show(f"rate, {way}", found)
        return found
