"""``./run bench broker``: messages per second and latency of a node as a plain broker, and of RabbitMQ.

    ./run bench broker [--json] [--messages N] [--size BYTES] [--node PORT] [--rabbitmq PORT]

RabbitMQ is measured if it is installed or given by ``--rabbitmq``. The same client (SEMQ's, in this process) puts the
same load on both, one after the other, and shares the cores with them. Compare ratios of one run, not figures of
different machines. Progress goes to standard error; the result is a table, or one JSON object with ``--json``.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import uvloop

from bench.cli import exit_on_sigterm
from bench.lone_node import node
from bench.rabbitmq.server import is_installed, rabbitmq
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.clock import SystemClock
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.transport.dialer import DialConfig, dial
from semq.transport.turn import Turn

WINDOW = 2000  # unconfirmed publishes
BATCH = 100  # publishes per turn of the event loop
PREFETCH = 500
READERS = 5  # consumers of the fan-out
LATENCY_PER_S = 200
LATENCY_S = 5


class BrokerLoad:
    """The load on one broker. Each phase returns messages per second, if it does not name another unit."""

    def __init__(self, port: int, messages: int, size: int) -> None:
        self.port = port
        self.messages = messages
        self.body = b"x" * size
        self.clock = SystemClock()
        self.turn = Turn()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[ClientChannel]:
        config = DialConfig("127.0.0.1", self.port, user="guest", password="guest")
        link: ClientLink = await dial(config, self.clock, self.turn)
        try:
            yield await link.open_channel()
        finally:
            await link.close(2.0)

    def header(self, *, durable: bool) -> ContentHeader:
        return ContentHeader.build(len(self.body), Properties(delivery_mode=2 if durable else 1))

    async def publish(self, channel: ClientChannel, exchange: str, key: str, *, durable: bool, confirms: bool) -> None:
        """Publish all messages, as fast as they are confirmed (``confirms``), or else as the socket accepts them."""
        header, remaining = self.header(durable=durable), self.messages
        settled = asyncio.Event()
        channel.on_settled = lambda _: settled.set()
        while remaining:
            while confirms and channel.unconfirmed >= WINDOW:
                settled.clear()
                await settled.wait()
            await channel.wait_ready()
            for _ in range(min(BATCH, remaining)):
                channel.publish(exchange, key, header, self.body)
            remaining -= min(BATCH, remaining)
            await asyncio.sleep(0)
        while confirms and channel.unconfirmed:
            settled.clear()
            await settled.wait()

    async def consume(self, channel: ClientChannel, queue: str, *, acks: bool) -> None:
        finished, consumed = asyncio.Event(), 0

        def on_messages(batch: list[Delivered]) -> None:
            nonlocal consumed
            for delivered in batch:
                if acks:
                    channel.ack(delivered.delivery_tag)
            consumed += len(batch)
            if consumed >= self.messages:
                finished.set()

        await channel.qos(PREFETCH)
        await channel.consume(queue, on_messages, no_ack=not acks)
        await finished.wait()

    async def durable_publish(self) -> float:
        """Publish persistent messages to a durable queue, with confirms."""
        async with self.channel() as channel:
            await channel.confirm_select()
            await channel.declare_queue("bench.durable", durable=True)
            return await self._rate(self.publish(channel, "", "bench.durable", durable=True, confirms=True))

    async def durable_consume(self) -> float:
        """Consume the messages of ``durable_publish``, with acks."""
        async with self.channel() as channel:
            return await self._rate(self.consume(channel, "bench.durable", acks=True))

    async def durable_both(self) -> float:
        """Publish and consume persistent messages at the same time."""
        async with self.channel() as publisher, self.channel() as consumer:
            await publisher.confirm_select()
            publishing = self.publish(publisher, "", "bench.durable", durable=True, confirms=True)
            return await self._rate(_all(publishing, self.consume(consumer, "bench.durable", acks=True)))

    async def transient(self) -> float:
        """Send transient messages through a queue in memory, without confirms and acks."""
        async with self.channel() as publisher, self.channel() as consumer:
            await consumer.declare_queue("bench.transient", auto_delete=True)
            publishing = self.publish(publisher, "", "bench.transient", durable=False, confirms=False)
            return await self._rate(_all(publishing, self.consume(consumer, "bench.transient", acks=False)))

    async def fan_out(self) -> float:
        """Measure deliveries per second of transient messages routed to several queues each."""
        async with self.channel() as publisher:
            await publisher.declare_exchange("bench.fan", "fanout")
            readers = [await self._reader() for _ in range(READERS)]
            publishing = self.publish(publisher, "bench.fan", "", durable=False, confirms=False)
            rate = await self._rate(_all(publishing, *(consuming for consuming, _ in readers)))
            for _, close in readers:
                await close()
            return rate * READERS

    async def _reader(self) -> tuple[Awaitable[None], Callable[[], Awaitable[None]]]:
        """Connect a consumer of the fan-out; return its work, and the function that disconnects it."""
        config = DialConfig("127.0.0.1", self.port, user="guest", password="guest")
        link = await dial(config, self.clock, self.turn)
        channel = await link.open_channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.bind_queue(queue, "bench.fan", "")
        return self.consume(channel, queue, acks=False), lambda: link.close(2.0)

    async def latency(self) -> tuple[float, float]:
        """Measure milliseconds from publish to delivery of persistent messages: p50 and p99."""
        latencies: list[float] = []
        finished = asyncio.Event()
        header = ContentHeader.build(8, Properties(delivery_mode=2))
        async with self.channel() as publisher, self.channel() as consumer:
            await publisher.confirm_select()

            def on_messages(batch: list[Delivered]) -> None:
                now = time.perf_counter_ns()
                latencies.extend((now - int.from_bytes(delivered.body)) / 1e6 for delivered in batch)
                consumer.ack(batch[-1].delivery_tag, multiple=True)
                if len(latencies) >= LATENCY_PER_S * LATENCY_S:
                    finished.set()

            await consumer.consume("bench.durable", on_messages)
            for _ in range(LATENCY_PER_S * LATENCY_S):
                publisher.publish("", "bench.durable", header, time.perf_counter_ns().to_bytes(8))
                await asyncio.sleep(1 / LATENCY_PER_S)
            await finished.wait()
        return round(statistics.median(latencies), 2), round(statistics.quantiles(latencies, n=100)[98], 2)

    async def _rate(self, work: Awaitable[None]) -> float:
        began = time.perf_counter()
        await work
        return round(self.messages / (time.perf_counter() - began))

    async def run_phases(self, name: str) -> dict[str, float]:
        """Run all phases, which depend on each other; return the figures. ``name``: the broker, for the progress."""
        result: dict[str, float] = {}
        for phase in (self.durable_publish, self.durable_consume, self.durable_both, self.transient, self.fan_out):
            result[f"{phase.__name__}_per_s"] = await phase()
            print(
                f"bench: {name} {phase.__name__} {result[f'{phase.__name__}_per_s']:,.0f}/s",
                file=sys.stderr,
                flush=True,
            )
        result["latency_p50_ms"], result["latency_p99_ms"] = await self.latency()
        async with self.channel() as channel:
            await channel.call(m.QueueDelete("bench.durable"), m.QueueDeleteOk)
            await channel.call(m.ExchangeDelete("bench.fan"), m.ExchangeDeleteOk)
        return result


async def _all(*work: Awaitable[None]) -> None:
    await asyncio.gather(*work)


def main(argv: list[str] | None = None) -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run bench broker", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--messages", type=int, default=20_000, metavar="N", help="messages in each phase (20000)")
    parser.add_argument("--size", type=int, default=1024, metavar="BYTES", help="bytes in a message (1024)")
    parser.add_argument("--node", type=int, metavar="PORT", help="port of a running node (default: starts one)")
    parser.add_argument(
        "--rabbitmq", type=int, metavar="PORT", help="port of a running RabbitMQ (default: starts one, if installed)"
    )
    arguments = parser.parse_args(argv)
    exit_on_sigterm()
    result: dict[str, object] = {"messages": arguments.messages, "size": arguments.size}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semq-bench-")))
        result["node"] = _measure("node", arguments.node or stack.enter_context(node(folder)), arguments)
    with ExitStack() as stack:
        if arguments.rabbitmq or is_installed():
            port = arguments.rabbitmq or stack.enter_context(rabbitmq())
            result["rabbitmq"] = _measure("rabbitmq", port, arguments)
    if "rabbitmq" in result:
        result["ratio"] = _ratios(result["node"], result["rabbitmq"])
    print(json.dumps(result) if arguments.json else _table(result), flush=True)
    return 0


def _measure(name: str, port: int, arguments: argparse.Namespace) -> dict[str, float]:
    async def run() -> dict[str, float]:
        return await BrokerLoad(port, arguments.messages, arguments.size).run_phases(name)

    return uvloop.run(run())


def _ratios(ours: object, theirs: object) -> dict[str, float]:
    assert isinstance(ours, dict)
    assert isinstance(theirs, dict)
    return {name: round(value / theirs[name], 3) for name, value in ours.items()}


def _table(result: dict[str, object]) -> str:
    brokers = [name for name in ("node", "rabbitmq", "ratio") if name in result]
    lines = [f"{'':<24}" + "".join(f"{name:>12}" for name in brokers)]
    figures = result["node"]
    assert isinstance(figures, dict)
    lines += [
        f"{figure:<24}" + "".join(f"{result[name][figure]:>12,}" for name in brokers)  # type: ignore[index]
        for figure in figures
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
