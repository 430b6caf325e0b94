"""Functions that run ``semq`` and return its output: in this process, or in a separate one where this matters."""

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import typer

from semq.cli.main import make, run
from tests.prepared.client import RUN_MODULE, PreparedProcess


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON value on standard output."""
        assert (self.status, self.err) == (0, ""), self
        [line] = self.out.splitlines()
        return json.loads(line)

    def fails(self, status: int, code: str, words: str = "") -> None:
        """Check that the command failed with this status, and printed one line with code, words and remedy."""
        assert (self.status, self.out) == (status, ""), self
        [line] = self.err.splitlines()
        assert line.startswith(f"semq: {code} "), line
        assert " — " in line
        assert words in line


def semq(*words: str, stdin: bytes = b"", **variables: str) -> CommandResult:
    """Run one command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with ExitStack() as exits:
        exits.enter_context(patch.dict(os.environ, environment(variables), clear=True))
        exits.enter_context(patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin))))
        exits.enter_context(redirect_stdout(out))
        exits.enter_context(redirect_stderr(err))
        status = run(words, _program)
    return CommandResult(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))


@cache  # making a program takes a third of the time of most commands
def _program(first_word: str | None) -> Callable[..., object]:
    return typer.main.get_command(make(first_word))


async def semq_aside(*words: str, stdin: bytes = b"", **variables: str) -> CommandResult:
    """Run one command in a thread, for tests whose nodes run in the event loop."""
    return await asyncio.to_thread(semq, *words, stdin=stdin, **variables)


def semq_process(*words: str, **variables: str) -> CommandResult:
    """Run one command as a process, as a shell does, with empty standard input."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "semq.cli", *words],
        input=b"", capture_output=True, env=environment(variables), check=False,
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def node_process(*words: str, **variables: str) -> CommandResult:
    """Run one command that starts a node, as a process that has imported a node already."""
    with TemporaryFile() as errors:
        process = PreparedProcess(
            [*RUN_MODULE, "semq.cli", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            cwd=Path.cwd(), env=environment(variables), start_new_session=True, preexec_fn=None,
        )  # fmt: skip
        with process.stdout as out:
            output = out.read()
        status = process.wait()
        errors.seek(0)
        return CommandResult(status, output.decode(), errors.read().decode())


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return the variables of this process without settings of nodes, and with ``variables``."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")} | variables
