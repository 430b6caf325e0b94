"""Commands that read the values of their options without pydantic, and display their help texts literally.

Typer itself reads every value by a pydantic adapter, but the import of pydantic takes longer than all other work of a
command on a running node. Only parameters for which `reading_of` returns None are left to Typer.
"""

import inspect
import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer._click import Context, Parameter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

TAG = re.compile(r"(\\*)(\[[a-z#/@][^\[]*?\])")  # text that the markup of rich takes for a style
FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _read_flag(text: str) -> bool:
    if (word := text.strip().lower()) not in FLAGS:
        raise ValueError(text)
    return FLAGS[word]


Read = Callable[[Any], Any]  # reads a text, or raises ValueError
# Kind of value | function that reads its text | message for a wrong text
READ: dict[object, tuple[Read, str]] = {
    str: (str, "is not a text"),
    int: (int, "is not a whole number"),
    float: (float, "is not a number"),
    bool: (_read_flag, "is neither true nor false"),
    Path: (Path, "is not a path"),
}


class ParsedCommand(TyperCommand):
    """A command whose values are read by this module."""

    def __init__(self, *args: str | None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        _make_help_literal(self)

    def get_params(self, ctx: Context) -> list[Parameter]:
        return _with_readings(super().get_params(ctx))


class ParsedGroup(TyperGroup):
    """A group whose own options are read by this module. An option before its command is refused."""

    def __init__(self, *args: object, **settings: Any) -> None:
        super().__init__(*args, **settings)
        _make_help_literal(self)

    def get_params(self, ctx: Context) -> list[Parameter]:
        return _with_readings(super().get_params(ctx))

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        name = args[0].partition("=")[0] if args and args[0].startswith("-") else ""
        is_own = any(name in parameter.opts for parameter in self.params)
        if not ctx.resilient_parsing and not is_own and (option := _option_below(self, name)) is not None:
            command = " ".join([ctx.command_path, *(_command_path(self, args[1:]) or ["COMMAND"])])
            value = "" if option.is_flag else f" {option.metavar or 'VALUE'}"
            ctx.fail(f"Options come after the command, for example: {command} {name}{value}")
        return super().parse_args(ctx, args)


def _option_below(group: object, name: str) -> TyperOption | None:
    """Return the first option called ``name`` of the commands of a group and its subgroups; None if there is none."""
    if not name:
        return None
    for below in getattr(group, "commands", {}).values():
        for parameter in below.params:
            if isinstance(parameter, TyperOption) and name in parameter.opts:
                return parameter
        if (option := _option_below(below, name)) is not None:
            return option
    return None


def _command_path(group: object, words: list[str]) -> list[str]:
    """Return the names of groups and of a command among the words of a command line."""
    names = []
    for word in words:
        if (below := getattr(group, "commands", {}).get(word)) is not None:
            group = below
            names.append(word)
    return names


def with_parsed_commands(group: typer.Typer) -> typer.Typer:
    """Make all commands of a group and its subgroups ParsedCommands; return the group."""
    for command in group.registered_commands:
        command.cls = ParsedCommand
    for subgroup in group.registered_groups:
        subgroup.cls = ParsedGroup
        if subgroup.typer_instance is not None:
            with_parsed_commands(subgroup.typer_instance)
    return group


def _make_help_literal(command: TyperCommand | TyperGroup) -> None:
    for described in (command, *command.params):
        if isinstance(described, TyperCommand | TyperGroup | TyperArgument | TyperOption) and described.help:
            described.help = literal_help(described.help)


def literal_help(text: str) -> str:
    """Return a help text in the markup of rich: brackets are escaped, the lines of a paragraph joined.

    Otherwise rich takes ``[http]`` for a style and drops it. A paragraph that begins with a backspace (``\\b``) keeps
    its lines.
    """
    paragraphs = [
        paragraph if paragraph.startswith("\b") else " ".join(paragraph.split("\n"))
        for paragraph in inspect.cleandoc(text).split("\n\n")
    ]
    return TAG.sub(r"\1\1\\\2", "\n\n".join(paragraphs))


class ParameterReading:
    """A replacement of Typer's pydantic adapter for a parameter. ``read`` converts one text."""

    def __init__(self, read: Read, *, is_list: bool) -> None:
        self._read = read
        self._is_list = is_list

    def coerce(self, value: Any, param: TyperArgument | TyperOption, ctx: Context) -> object:
        """Return the value of a text, or the values of a list of texts. Raises BadParameter.

        None becomes an empty tuple for a list, and stays None otherwise.
        """
        if value is None:
            return () if self._is_list else None
        try:
            return [self._read(text) for text in value] if self._is_list else self._read(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error


def _with_readings(parameters: list[Parameter]) -> list[Parameter]:
    """Replace Typer's adapter of each parameter by its ParameterReading."""
    for parameter in parameters:
        if isinstance(parameter, TyperArgument | TyperOption) and (reading := reading_of(parameter)) is not None:
            parameter.get_runtime_param = partial(_reading, reading)  # type: ignore[method-assign]
    return parameters


def _reading(reading: ParameterReading) -> Any:
    """Return ``reading``; replaces the method ``get_runtime_param`` of a parameter."""
    return reading


def reading_of(parameter: TyperArgument | TyperOption) -> ParameterReading | None:
    """Return the reading of a parameter; None if Typer must read it, by pydantic."""
    info = parameter.type_descriptor.parameter_info
    kind: object = parameter.type_descriptor.annotation
    is_list = get_origin(kind) is list
    kind = get_args(kind)[0] if is_list else kind
    if info.parser is not None or info.clamp or info.exists or info.resolve_path or info.allow_dash:
        return None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ParameterReading(_choice(kind), is_list=is_list)
    return ParameterReading(_bounded(kind, info.min, info.max), is_list=is_list) if kind in READ else None


def _bounded(kind: object, least: float | None, most: float | None) -> Read:
    read, fault = READ[kind]

    def read_bounded(text: str) -> object:
        try:
            value = read(text)
        except ValueError:
            raise ValueError(f"{text!r} {fault}.") from None
        if (least is not None and not value >= least) or (most is not None and not value <= most):
            raise ValueError(f"{text} is not in the range {_range(least, most)}.")
        return value

    return read_bounded


def _range(least: float | None, most: float | None) -> str:
    return f"from {least} on" if most is None else f"up to {most}" if least is None else f"{least} to {most}"


def _choice(kind: type[Enum]) -> Read:
    by_value = {str(member.value): member for member in kind}

    def read_choice(value: object) -> object:
        if isinstance(value, kind):
            return value
        if value not in by_value:
            raise ValueError(f"{value!r} is not one of {', '.join(by_value)}.")
        return by_value[value]

    return read_choice
