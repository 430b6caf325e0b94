"""Debian's RabbitMQ as a separate process, with its own folder and ports; only if it is installed."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.ports import answers, free_port

Definitions = Callable[[int], Mapping[str, Any]]  # by the port of the server

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_S = 120.0


def is_installed() -> bool:
    """Return whether RabbitMQ is installed."""
    return PROGRAM.exists()


class RabbitServer(NamedTuple):
    """A running RabbitMQ."""

    port: int
    session: int  #: session id of all its processes


@contextmanager
def rabbitmq() -> Iterator[int]:
    """Run a fresh RabbitMQ with its defaults (guest, guest, /), and return its port."""
    with server() as running:
        yield running.port


@contextmanager
def server(plugins: Sequence[str] = (), definitions: Definitions | None = None) -> Iterator[RabbitServer]:
    """Run a fresh RabbitMQ with these plugins and, instead of its defaults, these definitions."""
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        lines = [f"listeners.tcp.local = 127.0.0.1:{port}"]
        if definitions is not None:
            (folder / "definitions.json").write_text(json.dumps(definitions(port)))
            lines.append(f"load_definitions = {folder / 'definitions.json'}")
        (folder / "rabbitmq.conf").write_text("\n".join([*lines, ""]))
        (folder / "plugins").write_text(f"[{','.join(plugins)}].")
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
            yield RabbitServer(port, process.pid)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
            # The port mapper made itself a daemon.
            subprocess.run(["epmd", "-port", epmd, "-kill"], stdout=subprocess.DEVNULL, check=False)
