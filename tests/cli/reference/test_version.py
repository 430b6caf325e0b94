"""``semq version``, and completion scripts that work."""

import os
import subprocess
import sys

from tests.cli.command import semq


def test_the_command_prints_its_version() -> None:
    result = semq("version", "--json").data
    assert semq("version").out.startswith(f"semq {result['semq']} (Python {result['python']}")


def test_completion_scripts_suggest_the_commands() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "semq" in semq("completion", shell).out
    assert semq("completion", "abacus").status == 2
    asked = {"_SEMQ_COMPLETE": "complete_bash", "COMP_WORDS": "semq msg re", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "semq.cli"], capture_output=True, text=True, env={**os.environ, **asked}, check=False
    )
    assert done.stdout.split() == ["receive", "release", "resend"]
