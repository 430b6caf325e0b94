"""``semq version`` and ``semq completion``."""

import platform
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # documented, not exported

from semq import __version__
from semq.cli.output.printer import Output
from semq.cli.session import JsonOption


class Shell(StrEnum):
    """Shells for which there are completion scripts."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def version(json: JsonOption = False) -> None:
    """Show the versions of SEMQ and Python."""
    out = Output(as_json=json)
    facts = {"semq": __version__, "python": platform.python_version(), "system": platform.system()}
    if json:
        out.data(facts)
    else:
        out.line(f"semq {facts['semq']} (Python {facts['python']}, {facts['system']})")


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print the completion script for a shell, to be stored in the shell's folder of completions."""
    Output(as_json=False).text(
        get_completion_script(prog_name="semq", complete_var="_SEMQ_COMPLETE", shell=shell.value)
    )
