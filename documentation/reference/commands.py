"""All commands of ``semq``, with arguments and options."""

import inspect
import re
from collections.abc import Iterable, Iterator
from enum import EnumType
from typing import Any

from typer.main import get_command

from documentation.reference.cells import code, plain, table
from semq.cli.main import EPILOG, HELP, make

COMMON = {"config", "node", "json", "hosted", "timeout", "help"}  # explained once


INTRODUCTION = """\
Commands that ask a node take `--config FILE`, `--node URL` and, for a server of many institutions, `--institution ID`,
and wait at most `--timeout S` seconds for its answer. Commands that print facts take `--json`. All these are left out
below.
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (plain(HELP.strip()), "", plain(EPILOG), "")
    yield INTRODUCTION
    for words, command in commands():
        yield from _chapter(words, command)


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every group and command that the help shows, by its words."""
    yield from _below((), get_command(make()))


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        if not inner.hidden:
            yield (*words, name), inner
            yield from _below((*words, name), inner)


def _chapter(words: tuple[str, ...], command: Any) -> Iterator[str]:
    level = "##" if len(words) == 1 else "###"
    parameters = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    yield from (f"{level} semq {' '.join(words)}", "")
    if not hasattr(command, "commands"):
        usage = " ".join(["semq", *words, *(_argument(each) for each in arguments)])
        yield from ("```", usage, "```", "")
    # A form feed ends what the help shows.
    yield from (_text(command.help or "").partition("\f")[0], "")
    shown = [(each, _argument(each)) for each in arguments if each.help]
    shown += [
        (each, _option(each)) for each in parameters if each.param_type_name == "option" and each.name not in COMMON
    ]
    rows = ((code(name), plain(_text(each.help or ""))) for each, name in shown)
    yield from table(("argument, option", "meaning"), rows)


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    name += "…" * (argument.nargs != 1)
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    kind = option.type_descriptor.annotation
    members: Iterable[Any] = kind if isinstance(kind, EnumType) else ()
    values = "|".join(str(member.value) for member in members)
    return names if option.is_flag else f"{names} {values or option.metavar or option.name.upper()}"


def _text(text: str) -> str:
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text)).replace("\b", "")
