"""A node by itself as a process (``local_node.plain_broker``), for measurements and tests from outside."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def life(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a node with its data below ``folder``, and return its port; at the end, kill it if it still runs."""
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
    """Run a node, and return its port; at the end, stop it in an orderly way."""
    with life(folder) as (process, port):
        try:
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
