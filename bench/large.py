"""``./run bench large --bytes N``: one document of N bytes from a file at A to a file at B, while memory is watched.

The time begins before the application's first byte and ends when the receiving application has the last one and has
acknowledged the document. Memory is that of each node's process, without its Postgres, and of the process of the
applications at both ends, at its highest, sampled four times a second. With ``--small PER_S`` small documents go the
same way at that rate: their latency is measured without the large one first, then beside it.
"""

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench import cli, gauges, phases
from bench.cli import say
from bench.errors import Incomplete
from bench.network import A, B, BenchNetwork
from semq.app import Client
from semq.app.file_body import FileBody

BYTES = 256 << 20
BLOCK = 1 << 20
SAMPLE_S = 0.25
PATIENCE_S = 7200.0
SMALL_S = 10.0
KEY = "bench/file//999999999"
SUMMARY = """
one document of {bytes} bytes from A to B; {cores} cores, load {load_1m}
  {seconds} s ({mib_per_s} MiB/s), digest equal: {digest_equal}
  memory at its highest, in MiB: {rss_mib}
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("large", __doc__)
    parser.add_argument("--bytes", type=cli.count, default=BYTES, metavar="N", help=f"size of the document ({BYTES})")
    parser.add_argument("--small", type=cli.rate, default=0.0, metavar="PER_S", help="small documents beside it (none)")
    parser.add_argument("--secure", action="store_true", help="with certificates; the document is sealed")
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda found: SUMMARY.format(**found))


async def run(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start the network, send the document, and return the figures."""
    load = cli.load_average()
    path = folder / "document"
    say(f"making a file of {arguments.bytes} bytes ...")
    digest = await asyncio.to_thread(make_file, path, arguments.bytes)
    say("starting a hub, A and B ...")
    async with BenchNetwork(folder, secure=arguments.secure) as network:
        found = await network.watched(measure(network, path, digest, arguments))
    return {"bytes": arguments.bytes, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **found}


def make_file(path: Path, size: int) -> str:
    """Write a file that does not compress; return its SHA-256."""
    digest = sha256()
    with path.open("wb") as file:
        while size:
            block = os.urandom(min(BLOCK, size))
            digest.update(block)
            file.write(block)
            size -= len(block)
    return digest.hexdigest()


async def measure(network: BenchNetwork, path: Path, digest: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Send the document and receive it. Raises Incomplete."""
    bench = phases.Bench(network, 1024)
    found: dict[str, Any] = {}
    if arguments.small:
        await phases.online(bench, 500)
        found["small_alone"] = await _small(bench, arguments.small, None)
    highest: dict[str, float] = {}
    sampling = asyncio.create_task(_sample(network, highest))
    # A folder on a disk: a temporary one in memory would hold the received body.
    tempfile.tempdir = str(path.parent)
    began = time.perf_counter()
    sending = asyncio.create_task(_send(network, path, arguments.secure))
    try:
        if arguments.small:
            found["small"] = await _small(bench, arguments.small, sending)
            received = await _receive(network)
        else:
            received = (await asyncio.gather(_receive(network), sending))[0]
        seconds = time.perf_counter() - began
    finally:
        sampling.cancel()
    if not sending.done() or received[1] != arguments.bytes:
        raise Incomplete(f"{received[1]} of {arguments.bytes} bytes arrived.")
    await bench.clean()
    return {
        **found, "seconds": round(seconds, 2), "mib_per_s": round(arguments.bytes / seconds / (1 << 20), 1),
        "digest_equal": received[0] == digest, "rss_mib": highest, "rss_mib_max": max(highest.values()),
    }  # fmt: skip


async def _send(network: BenchNetwork, path: Path, seal: bool) -> None:
    async with Client(network.nodes[A].url) as client:
        target = network.nodes[B].place.node_id
        body = FileBody(path)
        await client.send(target, body, app_key=KEY, encrypt=seal, timeout_s=PATIENCE_S)


async def _receive(network: BenchNetwork) -> tuple[str, int]:
    """Receive documents until the large one; return its digest and size."""
    async with Client(network.nodes[B].url) as client, client.receive(prefetch=1) as documents:
        async for document in documents:
            await document.ack()
            if str(document.app_key) == KEY:
                hashed = sha256()
                for block in document.blocks():
                    hashed.update(block)
                return hashed.hexdigest(), document.size
    raise Incomplete("The document did not arrive.")


async def _small(bench: phases.Bench, rate: float, beside: "asyncio.Task[None] | None") -> dict[str, float]:
    """Return the latency of small documents; ``beside``: begins when the large one is on its way."""
    if beside is not None:
        await asyncio.sleep(1.0)  # some pieces are under way
    async with AsyncExitStack() as stack:
        return await phases.times(bench, bench.numbers(int(SMALL_S * rate)), rate, stack)


async def _sample(network: BenchNetwork, highest: dict[str, float]) -> None:
    while True:
        for name, mib in gauges.rss_mib(network, applications=True).items():
            highest[name] = max(highest.get(name, 0.0), mib)
        await asyncio.sleep(SAMPLE_S)
