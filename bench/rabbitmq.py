"""Debian's RabbitMQ as a process of its own, in a folder and on ports of its own; only if it is installed."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ports import answers, free_port

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_S = 120.0


def is_installed() -> bool:
    """Whether there is one to compare with."""
    return PROGRAM.exists()


@contextmanager
def rabbitmq() -> Iterator[int]:
    """The port of a fresh RabbitMQ with its defaults: guest, guest, /."""
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{port}\n")
        (folder / "plugins").write_text("[].")
        environment = {
            **os.environ,
            "HOME": name,
            "RABBITMQ_NODENAME": f"semq{port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": (epmd := str(free_port())),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        with (folder / "out").open("wb") as out:
            # A session of its own: the script starts the virtual machine and a port mapper.
            process = subprocess.Popen([PROGRAM], env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            if not answers(port, START_S, lambda: process.poll() is None):
                raise RuntimeError("RabbitMQ did not start:\n" + (folder / "out").read_text(errors="replace")[-2000:])
            yield port
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
            # The port mapper made itself a daemon.
            subprocess.run(["epmd", "-port", epmd, "-kill"], stdout=subprocess.DEVNULL, check=False)
