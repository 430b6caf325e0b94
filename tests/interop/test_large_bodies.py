"""A large body, published, kept despite kills, delivered by get and consume: memory grows by less than a copy.

``./run python -m tests.interop.test_large_bodies 1024`` sends this number of MiB.
"""

import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from bench.lone_node import node_process

MIB = 1 << 20
SIZE_MIB = 64
GROWTH_MIB = 54  # limit for the growth of the node: a copy of the body exceeds it


def peak_mib(pid: int) -> int:
    """Return the largest resident set of a process so far, in MiB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


@contextmanager
def channel_of_bounded_node(folder: Path) -> Iterator[BlockingChannel]:
    """Yield a channel to a node that is killed at the end; the node's memory must grow by less than GROWTH_MIB."""
    with node_process(folder) as (process, port):
        before = peak_mib(process.pid)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        yield connection.channel()
        growth_mib = peak_mib(process.pid) - before
        connection.close()
        assert growth_mib < GROWTH_MIB


def publish_and_receive_with_kills(folder: Path, size_mib: int) -> Iterator[str]:
    """Publish, kill, get, kill, consume and acknowledge; yield a line about each step."""
    body = b"".join(hashlib.shake_128(b"%d" % number).digest(MIB) for number in range(size_mib))
    digest = hashlib.sha256(body).digest()
    with channel_of_bounded_node(folder) as channel:
        channel.confirm_delivery()
        channel.queue_declare("large", durable=True)
        began = time.perf_counter()
        channel.basic_publish("", "large", body, pika.BasicProperties(delivery_mode=2), mandatory=True)
        yield f"published and confirmed in {time.perf_counter() - began:.1f} s"
    del body
    with channel_of_bounded_node(folder) as channel:
        began = time.perf_counter()
        method, _, received = channel.basic_get("large")
        assert (hashlib.sha256(received).digest(), method.redelivered) == (digest, True)
        yield f"got in {time.perf_counter() - began:.1f} s"
    with channel_of_bounded_node(folder) as channel:
        began = time.perf_counter()
        method, _, received = next(channel.consume("large"))
        assert (hashlib.sha256(received).digest(), method.redelivered) == (digest, True)
        yield f"consumed in {time.perf_counter() - began:.1f} s"
        channel.basic_ack(method.delivery_tag)
        channel.cancel()
        assert channel.queue_declare("large", passive=True).method.message_count == 0


def test_a_large_body_costs_little_memory_and_survives_kills(tmp_path: Path) -> None:
    assert len(list(publish_and_receive_with_kills(tmp_path, SIZE_MIB))) == 3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for line in publish_and_receive_with_kills(Path(name), int(sys.argv[1])):
            print(line, flush=True)
