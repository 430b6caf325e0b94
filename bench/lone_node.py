"""One node without a hub as a process (``local_node.plain_broker``), for benchmarks of a plain broker and for tests."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def node_process(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a node with its data below ``folder``; yield process and port; at the end, kill it if it still runs."""
    command = [sys.executable, "-P", "-m", "local_node.plain_broker", "--port", "0", "--data", str(folder / "broker")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            if words[:1] != ["ready"]:
                raise RuntimeError("the node did not start")
            yield process, int(words[1].rpartition(":")[2])
        finally:
            process.kill()


@contextmanager
def node(folder: Path) -> Iterator[int]:
    """Run a node with its data below ``folder``; yield its port; at the end, stop it by SIGTERM."""
    with node_process(folder) as (process, port):
        try:
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
