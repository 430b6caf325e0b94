"""One node without a hub as a process (``./run broker``), for benchmarks of a plain broker and for tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semq.installation.empty_database import copy_empty_database
from semq.installation.process import NodeProcess

BROKER = "bench.rabbitmq.plain_broker"


@contextmanager
def node_process(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run a node with its data below ``folder``; yield process and port; kill it at the end."""
    command = [sys.executable, "-P", "-m", BROKER, "--port", "0", "--data", str(folder / "broker")]
    copy_empty_database(folder / "broker")
    log = folder / "broker.log"
    with log.open("ab") as errors:
        process = NodeProcess.popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=os.environ,
            start_new_session=True, preexec_fn=None,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        if words[:1] != [b"ready"]:
            raise RuntimeError(f"the node did not start: {log.read_text('utf-8', 'replace')}")
        yield process, int(words[1].rpartition(b":")[2])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def node(folder: Path) -> Iterator[int]:
    """Run a node with its data below ``folder``; yield its port; stop it by SIGTERM at the end."""
    with node_process(folder) as (process, port):
        try:
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
