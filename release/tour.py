"""A tour of an installed SEMQ by its commands alone: what a stranger types, from ``--help`` to a document each way.

``python tour.py SEMQ FOLDER``: the program ``semq`` to try, and an empty folder. Prints one JSON object; the exit
status is 0 only if every step went well. Needs only Python's own library, and is copied to where SEMQ is installed.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.request import urlopen

START_S = 300.0  # longest time in which a node and its console begin to serve
HTTP_OFFSET = 10  # `semq node init` gives the console this port above the AMQP port
PORTS = range(20_000, 32_000)  # below those of connections: net.ipv4.ip_local_port_range
INSTITUTIONS = ("10008", "56001")
DOCUMENT = bytes(range(256)) * 40


class TourFailed(Exception):
    """A command of the tour failed, or its result is not what it should be."""


class Tour:
    """The steps, in order."""

    def __init__(self, semq: str, folder: Path) -> None:
        self._semq = semq
        self._folder = folder
        self.passed: list[str] = []

    def run(self) -> dict[str, Any]:
        """Run all steps; return the versions and the names of the steps. Raises TourFailed."""
        facts: dict[str, Any] = json.loads(self._call("version", "--json"))
        self._expect("Commands" in self._call("--help"), "help")
        counts = json.loads(self._call("demo", "--no-reconcile", "--json", "--count", "2"))
        self._expect(counts["ok"] and counts["delivered"] == 4, "demo")
        hub, *nodes = self._configured()
        with ExitStack() as running:
            running.enter_context(self._node(hub))
            for institution, config in zip(INSTITUTIONS, nodes, strict=True):
                token = json.loads(self._call("hub", "nodes", "token", institution, "--config", hub, "--json"))
                words = ("--fingerprint", token["fingerprint"], "--token", token["token"])
                self._call("node", "enroll", "--config", config, *words)
                self._expect(True, f"enrolment of {institution}")
            for config in nodes:
                running.enter_context(self._node(config))
            for number in (0, 1):
                self._deliver(nodes[number], nodes[1 - number], INSTITUTIONS[1 - number])
            self._expect("FAILS" not in self._call("doctor", "--config", nodes[0]), "doctor")
        self._expect(True, "end of all nodes")
        return {**facts, "steps": self.passed}

    def _configured(self) -> list[str]:
        """Write the configurations of a hub and its institutions; return their paths."""
        port, *ports = _free_ports(1 + len(INSTITUTIONS))
        known = [word for institution in INSTITUTIONS for word in ("--institution", institution)]
        made = [self._init("hub", "--kind", "platform", "--port", str(port), *known)]
        for institution, own_port in zip(INSTITUTIONS, ports, strict=True):
            words = ("--id", institution, "--port", str(own_port), "--hub", f"127.0.0.1:{port}")
            made.append(self._init(institution, "--kind", "local", *words))
        modes = {Path(config).stat().st_mode & 0o777 for config in made}
        self._expect(modes == {0o600}, "new nodes")
        return made

    def _init(self, name: str, *words: str) -> str:
        return str(json.loads(self._call("node", "init", *words, "--json", str(self._folder / name)))["config"])

    @contextmanager
    def _node(self, config: str) -> Iterator[None]:
        """Run a node from its line `ready` to its orderly end."""
        with (
            Path(f"{config}.log").open("wb") as log,
            subprocess.Popen(
                [self._semq, "node", "run", "--config", config], stdout=subprocess.PIPE, stderr=log
            ) as node,
        ):
            assert node.stdout is not None
            limit = Timer(START_S, node.kill)
            limit.start()
            try:
                name, printed = Path(config).parent.name, b""
                for line, step in ((b"ready ", "node"), (b"console ", "console")):
                    if not (printed := node.stdout.readline()).startswith(line):
                        raise TourFailed(f"no {step} of {name}: {Path(log.name).read_text()[-2000:]}")
                    self._expect(True, f"{step} of {name}")
                limit.cancel()
                with urlopen(printed.split()[1].decode()) as page:
                    self._expect(b"SEMQ" in page.read(), f"page of {name}")
                yield
            finally:
                limit.cancel()
                node.send_signal(signal.SIGTERM)
                node.communicate()
        if node.returncode:
            raise TourFailed(f"{config} ended with {node.returncode}: {Path(log.name).read_text()[-2000:]}")

    def _deliver(self, sender: str, receiver: str, target: str) -> None:
        """Send a document and receive it; its bytes must be the same."""
        sent, into = self._folder / "sent.bin", self._folder / f"of-{target}"
        sent.write_bytes(DOCUMENT)
        words = ("--to", target, "--type", "order", "--file", str(sent), "--wait", "delivered", "--timeout", "60")
        self._call("msg", "send", "--config", sender, *words)
        self._call("msg", "receive", "--config", receiver, "--into", str(into))
        received = [file.read_bytes() for file in into.rglob("*") if file.is_file()]
        self._expect(DOCUMENT in received, f"document to {target}")

    def _call(self, *words: str) -> str:
        done = subprocess.run(
            [self._semq, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise TourFailed(f"semq {' '.join(words)}: status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def _expect(self, holds: bool, step: str) -> None:
        if not holds:
            raise TourFailed(step)
        self.passed.append(step)


def _free_ports(count: int) -> list[int]:
    """Return free ports of the loopback address whose companions of the console are free, too.

    None is one that the system gives to connections, which could take it before a node does.
    """
    with ExitStack() as held:
        free: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            if len(free) == count:
                break
            try:
                held.enter_context(_bound(port))
                held.enter_context(_bound(port + HTTP_OFFSET))
            except OSError:
                continue
            free.append(port)
        return free


def _bound(port: int) -> socket.socket:
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except BaseException:
        holder.close()
        raise
    return holder


def main(argv: list[str]) -> int:
    """Run the tour; return the exit status."""
    semq, folder = argv
    # The tour must not depend on the folder where it was started, nor on settings of the caller.
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith("SEMQ_")]:
        del os.environ[name]
    tour = Tour(semq, Path(folder))
    try:
        print(json.dumps({"ok": True, **tour.run()}))
    except (TourFailed, OSError, ValueError, LookupError) as fault:
        print(json.dumps({"ok": False, "steps": tour.passed, "fault": str(fault)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
