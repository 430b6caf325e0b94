"""``./run bench datagrams``: documents with @Reliable=0 as datagrams, compared with @Reliable=1 over the connection.

Documents of class 1 go from A through the hub to B. With ``--loss``, a UDP relay loses this share of the datagrams
between A and the hub, and between the hub and B. First the latency from publish to B's application is measured at
``--rate``, with @Reliable=1 and then with @Reliable=0. Then ``--messages`` documents of each kind are sent at full
speed, or at ``--rate-of-bulk``; ``per_s`` counts until the last document has arrived. Every document must be received,
or counted as lost by the end that should have received it.
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
from bench.errors import Incomplete, NoProgress
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
  as datagrams {as_datagrams}, over the connection {by_connection}; size of a datagram {datagram_bytes} bytes
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("datagrams", __doc__)
    parser.add_argument(
        "--loss", type=_share, default=0.0, metavar="SHARE", help="share of the datagrams that are lost (0)"
    )
    parser.add_argument("--messages", type=cli.count, default=5000, metavar="N", help="documents at full speed (5000)")
    parser.add_argument("--size", type=cli.size, default=300, metavar="BYTES", help="bytes in a document (300)")
    parser.add_argument(
        "--rate", type=cli.positive, default=100.0, metavar="PER_S", help="documents a second for the latency (100)"
    )
    parser.add_argument(
        "--seconds", type=cli.positive, default=10.0, metavar="N", help="duration of each latency measurement (10)"
    )
    parser.add_argument(
        "--rate-of-bulk",
        type=cli.positive,
        default=0.0,
        metavar="PER_S",
        help="documents a second instead of full speed",
    )
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda result: SUMMARY.format(**result))


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError("from 0 to below 1")
    return number


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Start the network, send the documents, and return the figures."""
    load = cli.load_average()
    port = free_udp_port()
    say("starting a hub, A and B ...")
    every: Rows = {"datagrams.host": "127.0.0.1", "datagrams.report_s": 0.5}
    async with relayed(port, arguments.loss) as advertised_port:
        to_hub: Rows = {"datagrams.port": port, "datagrams.advertised_port": advertised_port}
        async with BenchNetwork(folder, every=every, hub=to_hub) as network:
            result = await network.watched(DatagramBench(network).measure(arguments))
    facts = {"loss": arguments.loss, "size": arguments.size, "rate": arguments.rate}
    return {**facts, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **result}


@asynccontextmanager
async def relayed(port: int, loss: float) -> AsyncIterator[int]:
    """Run a relay to ``port`` and yield the relay's port; without loss yield ``port``."""
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
    def choose(self, way: str) -> None:
        """Send the next documents by ``way``: DATAGRAMS or CONNECTION."""
        self._extra_headers = {"@SaveFwd": 1, "@Ack2": 0, "@Reliable": 0 if way == DATAGRAMS else 1}


class BestEffortReceiver(LoadReceiver):
    """A receiver that also records the time of each arrival."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.arrivals: dict[int, float] = {}  #: time by number

    def _on_documents(self, batch: list[Delivered]) -> None:
        now = time.perf_counter()
        for delivered in batch:
            self.arrivals.setdefault(int.from_bytes(delivered.body[:SIZE_MIN], "big"), now)
        super()._on_documents(batch)


def counted(a: Result, b: Result, hub_a: Result, hub_b: Result) -> tuple[bool, int]:
    """Return whether every sent datagram is counted as received or lost, and the number of lost ones.

    ``a``, ``b``: figures of the channels at A and B; ``hub_a``, ``hub_b``: of the hub's channels to them.
    """
    lost_to_hub, lost_to_b = hub_a["lost"] + hub_a["full"], b["lost"] + b["full"]
    is_counted = a["sent"] == hub_a["received"] + lost_to_hub and hub_b["sent"] == b["received"] + lost_to_b
    return is_counted, lost_to_hub + lost_to_b


class DatagramBench:
    def __init__(self, network: BenchNetwork) -> None:
        self._network = network
        self._next_number = 0
        self._size = 0
        self._lost_before = 0

    async def measure(self, arguments: argparse.Namespace) -> Result:
        """Measure latencies, then rates. Raises Incomplete, NoProgress."""
        self._size = arguments.size
        await self._wait_open()
        async with AsyncExitStack() as stack:
            self._submitter = await BestEffortSubmitter.connect(self._network, A)
            self._receiver = await BestEffortReceiver.connect(self._network, B)
            for application in (self._submitter, self._receiver):
                stack.push_async_callback(application.close)
            await self._submitter.begin([NODE_IDS[B]])
            await self._receiver.begin(lambda number: self._size)
            latencies = {way: await self._latency(way, arguments) for way in (CONNECTION, DATAGRAMS)}
            before = await self._channels()
            rates = {way: await self._rate(way, arguments) for way in (CONNECTION, DATAGRAMS)}
            after = await self._channels()
        if self._receiver.repeated or self._receiver.damaged:
            raise Incomplete(f"{self._receiver.repeated} repeated, {self._receiver.damaged} damaged.")
        sent = after["a"]["sent"] - before["a"]["sent"]
        return {
            "messages": arguments.messages, **rates[DATAGRAMS], **latencies[DATAGRAMS],
            **{f"connection_{name}": value for name, value in (rates[CONNECTION] | latencies[CONNECTION]).items()},
            "as_datagrams": sent, "by_connection": arguments.messages - sent,
            "lost_to_hub": after["hub_a"]["lost"] - before["hub_a"]["lost"],
            "lost_to_b": after["b"]["lost"] - before["b"]["lost"],
            "datagram_bytes": after["a"]["datagram_bytes"],
        }  # fmt: skip

    async def _channels(self) -> dict[str, Any]:
        """Return the arguments of ``counted``."""
        a, b, hub = [await self._network.status(name) for name in (A, B, HUB)]
        hub_peers = hub["datagrams"]["peers"]
        closed = {"state": "closed"}
        return {
            "a": a["datagrams"]["peers"].get(HUB_NODE, closed), "b": b["datagrams"]["peers"].get(HUB_NODE, closed),
            "hub_a": hub_peers.get(f"1.{NODE_IDS[A]}", closed), "hub_b": hub_peers.get(f"1.{NODE_IDS[B]}", closed),
        }  # fmt: skip

    async def _wait_open(self) -> None:
        """Wait until datagrams pass on all ways. Raises NoProgress."""
        end = time.perf_counter() + SILENCE_S_MAX
        channels = await self._channels()
        while any(channel["state"] != "open" for channel in channels.values()):
            if time.perf_counter() > end:
                raise NoProgress(f"no datagrams pass: {channels}")
            await asyncio.sleep(POLL_S)
            channels = await self._channels()

    async def _arrived(self, numbers: range) -> list[int]:
        """Wait until every document has arrived or counts as lost; return those that have arrived."""
        end = time.perf_counter() + SILENCE_S_MAX
        while True:
            channels = await self._channels()
            arrived = [number for number in numbers if number in self._receiver.arrivals]
            is_counted, all_lost = counted(**channels)
            if is_counted and len(arrived) + all_lost - self._lost_before == len(numbers):
                self._lost_before = all_lost
                return arrived
            if time.perf_counter() > end:
                raise NoProgress(f"{len(arrived)} of {len(numbers)} received: {channels}")
            await asyncio.sleep(POLL_S)

    def _numbers(self, count: int) -> range:
        first, self._next_number = self._next_number, self._next_number + count
        return range(first, self._next_number)

    async def _latency(self, way: str, arguments: argparse.Namespace) -> Result:
        say(f"latency, {way} ...")
        self._submitter.choose(way)
        sent: dict[int, float] = {}
        numbers = self._numbers(max(round(arguments.rate * arguments.seconds), 2))
        await self._publish(numbers, arguments.rate, sent)
        arrived = await self._arrived(numbers)
        latencies = [(self._receiver.arrivals[number] - sent[number]) * 1000 for number in arrived]
        cuts = quantiles(latencies, n=100, method="inclusive")
        show(f"latency, {way}", {"sent": len(numbers), "received": len(arrived)})
        return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2)}

    async def _publish(self, numbers: range, rate: float, sent: dict[int, float]) -> None:
        """Publish documents at ``rate`` a second; ``sent`` gets the time of each."""
        started = time.perf_counter()
        for place, number in enumerate(numbers):
            await asyncio.sleep(max(started + place / rate - time.perf_counter(), 0))
            sent[number] = time.perf_counter()
            self._submitter.publish(number, self._size)

    async def _rate(self, way: str, arguments: argparse.Namespace) -> Result:
        say(f"{arguments.messages} documents, {way} ...")
        self._submitter.choose(way)
        numbers = self._numbers(arguments.messages)
        began = time.perf_counter()
        if arguments.rate_of_bulk:
            await self._publish(numbers, arguments.rate_of_bulk, {})
        else:
            await self._submitter.submit(numbers.start, len(numbers), self._size)
        arrived = await self._arrived(numbers)
        if not arrived:
            raise Incomplete("No document has arrived.")
        last = max(self._receiver.arrivals[number] for number in arrived)
        result = {"sent": len(numbers), "received": len(arrived), "per_s": round(len(arrived) / (last - began))}
        show(f"rate, {way}", result)
        return result
