"""Debian's RabbitMQ as separate processes, if it is installed, with folders and ports of their own.

With ``root`` it is the one of another release of Debian, in this folder (``debian``).
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import Signals
from typing import Any, NamedTuple

from bench.ports import wait_for_server
from bench.rabbitmq.debian import give_to_rabbitmq
from semq.installation.configuration import ApplicationLogin, free_ports

Definitions = Callable[[int], Mapping[str, Any]]  # argument: the port of the server

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_S = 120.0  # time for a node to serve
STOP_S = 60.0  # time for a node to end


def is_installed() -> bool:
    """Return whether RabbitMQ is installed."""
    return PROGRAM.exists()


def chrooted(root: Path | None, *command: str, user: str = "root") -> list[str]:
    """Return a command, or the one that runs it in ``root``."""
    return list(command) if root is None else ["chroot", f"--userspec={user}:{user}", str(root), *command]


class RabbitServer(NamedTuple):
    """A running RabbitMQ."""

    port: int
    session: int  #: session id of all its processes


class RabbitNode:
    """One node of RabbitMQ, which may be started several times."""

    def __init__(self, home: Path, port: int, internal_port: int, mapper: int, root: Path | None = None) -> None:
        """``home``: folder with the cookie of all nodes of a cluster. ``mapper``: port of the ``port_mapper``."""
        self.port = port
        self.name = f"semq{port}@localhost"
        self.folder = home / f"rabbitmq-{port}"
        self._home = home
        self._internal_port = internal_port
        self._mapper = mapper
        self._root = root
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, lines: Sequence[str] = (), plugins: Sequence[str] = ()) -> None:
        """Write configuration and plugins, before the first start. ``lines``: further settings."""
        self.folder.mkdir()
        listens = f"listeners.tcp.local = 127.0.0.1:{self.port}"
        (self.folder / "rabbitmq.conf").write_text("\n".join([listens, *lines, ""]))
        (self.folder / "plugins").write_text(f"[{','.join(plugins)}].")
        if self._root is not None:
            give_to_rabbitmq(self._root, self._home)

    def _path(self, path: Path) -> str:
        """Return a path as the node sees it."""
        return str(path) if self._root is None else f"/{path.relative_to(self._root)}"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the processes of the node; return the first one, whose id is also their session id."""
        environment = {
            **os.environ,
            "HOME": self._path(self._home),
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_MNESIA_BASE": self._path(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": self._path(self.folder / "log"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": self._path(self.folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._path(self.folder / "plugins"),
            "RABBITMQ_DIST_PORT": str(self._internal_port),
            "ERL_EPMD_PORT": str(self._mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        with (self.folder / "out").open("ab") as out:
            # The script starts another process. They get a session of their own, so that ``signal`` reaches both.
            command = chrooted(self._root, str(PROGRAM), user="rabbitmq")
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        self.process = process
        return process

    def wait_serving(self) -> bool:
        """Wait until the node serves; return False if it ends, or does not serve within START_S."""
        process = self.process
        return process is not None and wait_for_server(self.port, START_S, lambda: process.poll() is None)

    def signal(self, number: Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def output(self) -> str:
        return (self.folder / "out").read_text(errors="replace")[-2000:]


def cluster_nodes(
    home: Path, mapper: int, count: int, login: ApplicationLogin, root: Path | None = None
) -> list[RabbitNode]:
    """Return the nodes of one cluster, which may be started in any order. ``home``: their folder; it is in ``root``."""
    ports = free_ports(2 * count)
    nodes = [
        RabbitNode(home, port, internal, mapper, root)
        for port, internal in zip(ports[:count], ports[count:], strict=True)
    ]
    lines = [f"default_user = {login.user}", f"default_pass = {login.password}"]
    lines += [
        "cluster_partition_handling = pause_minority",
        "cluster_formation.peer_discovery_backend = classic_config",
    ]
    lines += [f"cluster_formation.classic_config.nodes.{number} = {node.name}" for number, node in enumerate(nodes, 1)]
    cookie = home / ".erlang.cookie"
    cookie.write_text(os.urandom(10).hex())
    cookie.chmod(0o400)
    for node in nodes:
        node.write(lines)
    return nodes


@contextmanager
def port_mapper(root: Path | None = None) -> Iterator[int]:
    """Run a port mapper of Erlang, through which nodes find each other; yield its port.

    Otherwise a node would start one as a daemon that never ends.
    """
    (port,) = free_ports(1)
    process = subprocess.Popen(
        chrooted(root, "epmd", "-port", str(port), "-address", "127.0.0.1"), stderr=subprocess.DEVNULL
    )
    try:
        wait_for_server(port, START_S, lambda: process.poll() is None, amqp=False)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def rabbitmq(root: Path | None = None) -> Iterator[int]:
    """Run a fresh RabbitMQ with its defaults (guest, guest, /), and yield its port."""
    with server(root=root) as running:
        yield running.port


@contextmanager
def server(
    plugins: Sequence[str] = (), definitions: Definitions | None = None, root: Path | None = None
) -> Iterator[RabbitServer]:
    """Run a fresh RabbitMQ with these plugins, and these definitions instead of its defaults."""
    temporary = tempfile.TemporaryDirectory(
        prefix="rabbitmq-", ignore_cleanup_errors=True, dir=None if root is None else root / "var/tmp"
    )
    with temporary as name, port_mapper(root) as mapper:
        port, internal = free_ports(2)
        node = RabbitNode(Path(name), port, internal, mapper, root)
        lines = []
        if definitions is not None:
            file = Path(name) / "definitions.json"
            file.write_text(json.dumps(definitions(node.port)))
            lines.append(f"load_definitions = {file}")
        node.write(lines, plugins)
        process = node.start()
        try:
            if not node.wait_serving():
                raise RuntimeError("RabbitMQ did not start:\n" + node.output())
            yield RabbitServer(node.port, process.pid)
        finally:
            node.signal(Signals.SIGTERM)
            process.wait(STOP_S)
