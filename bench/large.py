"""``./run bench large``: a large document from A to B; with ``--beside``, the latency of small ones beside large ones.

Without ``--beside``, one document of N bytes goes from a file at A to B's application. The time begins before the
sending application's first byte and ends when the receiving application has the last byte and has acknowledged the
document. The memory is the maximum of four samples a second: for each node's process without its Postgres, and for the
process of the applications at both ends.

With ``--beside``, small documents at ``--small`` a second are sent alone and beside large documents in turns
(``beside``). The large documents have N bytes (``pieces``), or ``--size`` bytes at ``--per-s`` a second
(``documents``).
"""

import argparse
import asyncio
import os
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench import beside, cli, gauges, phases
from bench.cli import say
from bench.errors import Incomplete
from bench.network import A, B, BenchNetwork
from semq.app import Client
from semq.app.file_body import FileBody

BYTES = 256 << 20
BYTES_BESIDE = 128 << 20
SIZE, PER_S, SMALL_PER_S, SECONDS, ROUNDS = 1 << 20, 15.0, 50.0, 10.0, 3
BLOCK = 1 << 20
SAMPLE_S = 0.25
PATIENCE_S = 7200.0  # longest time until A has accepted the document
KEY = "bench/file//999999999"
PIECES, DOCUMENTS = "pieces", "documents"
SUMMARY = """
one document of {bytes} bytes from A to B; {cores} cores, load {load_1m}
  {seconds} s ({mib_per_s} MiB/s), digest equal: {digest_equal}
  memory at its highest, in MiB: {rss_mib}
"""
SUMMARY_BESIDE = """
small documents beside large ones ({beside_kind}); {cores} cores, load {load_1m}
  p99 alone {small_p99_ms_alone} ms, beside {small_p99_ms_beside} ms, ratio {ratio}
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("large", __doc__)
    parser.add_argument(
        "--bytes", type=cli.count, default=0, metavar="N",
        help=f"size of the document ({BYTES}; {BYTES_BESIDE} with --beside pieces)",
    )  # fmt: skip
    parser.add_argument("--secure", action="store_true", help="with certificates; documents are sealed")
    parser.add_argument("--beside", choices=(PIECES, DOCUMENTS), help="small documents beside large ones")
    parser.add_argument(
        "--size",
        type=cli.count,
        default=SIZE,
        metavar="N",
        help=f"size of a large document with --beside documents ({SIZE})",
    )
    parser.add_argument(
        "--per-s",
        type=cli.positive,
        default=PER_S,
        metavar="N",
        help=f"large documents a second with --beside documents ({PER_S:g})",
    )
    parser.add_argument(
        "--small",
        type=cli.positive,
        default=SMALL_PER_S,
        metavar="PER_S",
        help=f"small documents a second with --beside ({SMALL_PER_S:g})",
    )
    parser.add_argument(
        "--seconds",
        type=cli.positive,
        default=SECONDS,
        metavar="N",
        help=f"duration of a turn with --beside; pieces: of a turn of small documents alone ({SECONDS:g})",
    )
    parser.add_argument(
        "--rounds", type=cli.count, default=ROUNDS, metavar="N", help=f"turns of each kind with --beside ({ROUNDS})"
    )
    arguments = parser.parse_args(argv)
    summary = SUMMARY_BESIDE if arguments.beside else SUMMARY
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda result: summary.format(**result))


async def run(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start the network, send the documents, and return the figures."""
    load = cli.load_average()
    path = folder / "document"
    size, digest = arguments.bytes or (BYTES_BESIDE if arguments.beside else BYTES), ""
    if arguments.beside != DOCUMENTS:
        say(f"making a file of {size} bytes ...")
        digest = await asyncio.to_thread(make_file, path, size)
    say("starting a hub, A and B ...")
    async with BenchNetwork(folder, secure=arguments.secure) as network:
        bench = phases.Bench(network, 1024, encrypt=arguments.secure)
        if arguments.beside:
            measuring = measure_beside(bench, path, size, arguments)
        else:
            measuring = measure(bench, path, size, digest)
        result = await network.watched(measuring)
    return {"bytes": size, "cores": len(os.sched_getaffinity(0)), "load_1m": load, **result}


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


async def measure_beside(bench: phases.Bench, path: Path, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure small documents alone and beside large ones."""
    size, per_s = (arguments.size, arguments.per_s) if arguments.beside == DOCUMENTS else (size, 0.0)
    task = beside.task_of(bench, path, size, per_s, arguments.seconds)
    result = await beside.measure(bench, task, arguments.small, arguments.rounds)
    return {"beside_kind": arguments.beside, "small_per_s": arguments.small, **result}


async def measure(bench: phases.Bench, path: Path, size: int, digest: str) -> dict[str, Any]:
    """Send one document and receive it. Raises Incomplete."""
    network = bench.network
    highest: dict[str, float] = {}
    sampling = asyncio.create_task(_sample(network, highest))
    # The default folder for temporary files may be in memory.
    tempfile.tempdir = str(path.parent)
    began = time.perf_counter()
    try:
        received, _ = await asyncio.gather(_receive(network), _send(network, path, bench.encrypt))
        seconds = time.perf_counter() - began
    finally:
        sampling.cancel()
    received_digest, received_size = received
    if received_size != size:
        raise Incomplete(f"{received_size} of {size} bytes arrived.")
    await bench.wait_clean()
    return {
        "seconds": round(seconds, 2), "mib_per_s": round(size / seconds / (1 << 20), 1),
        "digest_equal": received_digest == digest, "rss_mib": highest, "rss_mib_max": max(highest.values()),
    }  # fmt: skip


async def _send(network: BenchNetwork, path: Path, seal: bool) -> None:
    async with Client(network.nodes[A].url) as client:
        target = network.nodes[B].place.node_id
        body = FileBody(path)
        await client.send(target, body, app_key=KEY, encrypt=seal, timeout_s=PATIENCE_S)


async def _receive(network: BenchNetwork) -> tuple[str, int]:
    async with Client(network.nodes[B].url) as client, client.receive(prefetch=1) as documents:
        document = await anext(documents)
        await document.ack()
        hashed = sha256()
        for block in document.blocks():
            hashed.update(block)
        return hashed.hexdigest(), document.size


async def _sample(network: BenchNetwork, highest: dict[str, float]) -> None:
    while True:
        for name, mib in gauges.rss_mib(network, applications=True).items():
            highest[name] = max(highest.get(name, 0.0), mib)
        await asyncio.sleep(SAMPLE_S)
