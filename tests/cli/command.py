"""Runs ``semq`` as a process of its own and keeps what it said."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON value of its standard output."""
        assert self.status == 0, self.err
        assert self.err == ""
        [line] = self.out.splitlines()
        return json.loads(line)

    def fails(self, status: int, code: str) -> None:
        """It ended with this status, and said why in one line: code, words, remedy; no traceback."""
        assert (self.status, self.out) == (status, ""), self
        [line] = self.err.splitlines()
        assert line.startswith(f"semq: {code} "), line
        assert " — " in line


def semq(*words: str, stdin: bytes = b"", **variables: str) -> Said:
    """Run one command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "semq.cli", *words],
        input=stdin, capture_output=True, env={**environment, **variables}, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())
