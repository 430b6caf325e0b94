"""A node by itself as a process (``local_node.broker``), for measurements and tests from outside."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def node(folder: Path) -> Iterator[int]:
    """The port of a fresh node; its data are kept below ``folder``."""
    command = [sys.executable, "-P", "-m", "local_node.broker", "--port", "0", "--data", str(folder / "broker")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().split()
            if said[:1] != ["ready"]:
                raise RuntimeError("the node did not start")
            yield int(said[1].rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
