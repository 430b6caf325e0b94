"""The commands of the tutorial, as they are printed. Only ports are others, so that tests can run side by side."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from semq.installation.configuration import free_ports
from tests.house.sources import ROOT

BLOCK = re.compile(r"^```console(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STOP = re.compile(r"Ctrl-C in (terminal \d)")
PORTS = ("17670", "17680", "17671", "17681", "17672", "17682")
INSTALLATION = ("python3 -m venv", ". venv/", "pip install")  # tests of the archives install them


class Typed(NamedTuple):
    """Commands that are typed in one terminal, after Ctrl-C in another one."""

    terminal: str
    stopped: str
    commands: list[str]


def blocks(text: str) -> Iterator[Typed]:
    terminal, end = "", 0
    for block in BLOCK.finditer(text):
        stopped, end = STOP.search(text, end, block.start()), block.end()
        terminal = (block[1] or "").partition(":")[0] or terminal
        commands = [
            line.removeprefix("$ ") for line in block[2].replace("\\\n", "").splitlines() if line.startswith("$ ")
        ]
        yield Typed(
            terminal, stopped[1] if stopped else "", [each for each in commands if not each.startswith(INSTALLATION)]
        )


class Terminals:
    """Terminals of one person: the nodes that run in them, and the shell in which the other commands are typed."""

    def __init__(self, folder: Path, ports: dict[str, str]) -> None:
        self._folder = folder
        self._ports = ports
        self._nodes: dict[str, subprocess.Popen[str]] = {}
        self._secrets: dict[str, str] = {}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path}
        self._exported = list[str]()

    def type(self, terminal: str, command: str) -> str:
        """Run a command; return what it prints, or the line by which a node says that it serves."""
        for printed, replaced in (self._ports | self._secrets).items():
            command = command.replace(printed, replaced)
        if command.startswith("semq node run"):
            return self._start(terminal, command)
        if command.startswith("export ") or re.match(r"[A-Z]+=\$\(", command):
            self._exported.append(command)
            return ""
        script = "\n".join(("set -e", *self._exported, command))
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if "node init" in command:
            self._set_ports()
        return done.stdout + done.stderr

    def note_secrets(self, answer: str) -> None:
        """Note the token and the fingerprint that the hub has printed."""
        for name in ("token", "fingerprint"):
            if found := re.search(rf"{name}\W+(\S+)", answer):
                self._secrets[name.upper()] = found[1]

    def stop(self, terminal: str, how: signal.Signals = signal.SIGINT) -> None:
        """Press Ctrl-C."""
        node = self._nodes.pop(terminal)
        node.send_signal(how)
        node.communicate()

    def close(self) -> None:
        for terminal in list(self._nodes):
            self.stop(terminal, signal.SIGTERM)

    def _set_ports(self) -> None:
        for file in self._folder.glob("*/node.toml"):
            text = file.read_text("utf-8")
            for printed, replaced in self._ports.items():
                text = text.replace(printed, replaced)
            file.write_text(text, "utf-8")

    def _start(self, terminal: str, command: str) -> str:
        node = subprocess.Popen(
            command.split(), cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        self._nodes[terminal] = node
        assert node.stdout is not None
        for line in node.stdout:
            if line.startswith("ready"):
                return line
        raise AssertionError(f"{command} ended before it was ready.")


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    made = Terminals(tmp_path, dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True)))
    yield made
    made.close()


def answers(terminals: Terminals, page: str) -> dict[str, str]:
    """Type all commands of a page; return what each printed, by the command as it is in the page."""
    found = {}
    for block in blocks((ROOT / "docs" / page).read_text("utf-8")):
        if block.stopped:
            terminals.stop(block.stopped)
        for command in block.commands:
            found[command] = terminals.type(block.terminal, command)
            terminals.note_secrets(found[command]) if "nodes token" in command else None
    return found


def test_every_command_of_the_tutorial_does_what_it_says(terminals: Terminals, tmp_path: Path) -> None:
    said = answers(terminals, "tutorial.md")
    assert len(said) > 20
    assert "SS_ACK" in said["semq msg list"]
    assert "delivered" in said["semq msg wait LW-2042"]
    assert any(b"LW-2041" in file.read_bytes() for file in (tmp_path / "received").rglob("*") if file.is_file())


def test_the_chinese_tutorial_has_the_same_commands() -> None:
    texts = [(ROOT / "docs" / page).read_text("utf-8") for page in ("tutorial.md", "zh/tutorial.md")]
    english, chinese = ([block.group() for block in BLOCK.finditer(text)] for text in texts)
    translated = [re.sub(r"terminal (\d)", r"终端 \1", block).replace(": institution", "：机构") for block in english]
    assert chinese == translated
