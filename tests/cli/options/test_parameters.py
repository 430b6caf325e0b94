"""Values of options are read as Typer reads them, without pydantic; help texts are displayed as they are written."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from semq.cli.groups import GROUPS, TOP_COMMANDS
from semq.cli.main import make
from semq.cli.options import parameters
from semq.cli.options.parameters import literal_help
from tests.cli.command import semq


class Colour(StrEnum):
    red = "red"
    blue = "blue"


def parsed(*words: str) -> dict[str, Any]:
    """Return the values that a command got for these words."""
    found: dict[str, Any] = {}
    whole = typer.Typer(cls=parameters.ParsedGroup, pretty_exceptions_enable=False)

    @whole.command(cls=parameters.ParsedCommand)
    def command(
        count: Annotated[int, typer.Option(min=1, max=9)] = 4,
        share: Annotated[float, typer.Option(min=0.5)] = 1.0,
        file: Path | None = None,
        colour: Colour = Colour.red,
        name: list[str] | None = None,
        deep: bool = False,
    ) -> None:
        found.update(count=count, share=share, file=file, colour=colour, name=name, deep=deep)

    whole(args=list(words), standalone_mode=False)
    return found


def test_options_have_defaults_and_take_values() -> None:
    assert parsed() == {"count": 4, "share": 1.0, "file": None, "colour": Colour.red, "name": None, "deep": False}
    words = ("--count=9", "--share=0.5", "--file=a/b", "--colour=blue", "--name=x", "--name=y", "--deep")
    assert parsed(*words) == {
        "count": 9, "share": 0.5, "file": Path("a/b"), "colour": Colour.blue, "name": ["x", "y"], "deep": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("--count=x", "'x' is not a whole number."),
        ("--count=0", "0 is not in the range 1 to 9."),
        ("--count=10", "10 is not in the range 1 to 9."),
        ("--share=nan", "nan is not in the range from 0.5 on."),
        ("--share=half", "'half' is not a number."),
        ("--colour=green", "'green' is not one of red, blue."),
    ],
)
def test_an_invalid_value_is_refused(word: str, says: str) -> None:
    with pytest.raises(typer.BadParameter, match=says):
        parsed(word)


def test_help_texts_are_escaped_and_joined_by_paragraph() -> None:
    assert literal_help('A node with [http]\nstarts amqp[s]: [NAME] ids=["1"].') == (
        'A node with \\[http] starts amqp\\[s]: [NAME] ids=["1"].'
    )
    assert literal_help("a\nb\n\n\b\n  c\n  d\n\ne\nf") == "a b\n\n\b\n  c\n  d\n\ne f"


def test_every_word_of_every_help_text_is_displayed() -> None:
    """``--help`` on 80 columns neither drops words in brackets nor cuts long words."""
    for path, command in walk(typer.main.get_command(make()), ()):
        if path in {("reconcile",), ("demo",)}:  # these programs print a help of their own
            continue
        displayed = semq(*path, "--help").out
        for described in (command, *command.params):
            text = (getattr(described, "help", None) or "").replace("\\[", "[").replace("\b", "")
            assert [word for word in text.split() if word not in displayed] == [], path


def test_commands_of_subgroups_belong_to_the_classes_that_read_values() -> None:
    commands = list(walk(typer.main.get_command(make("hub")), ()))
    assert ("hub", "nodes", "token") in [path for path, _ in commands]
    assert {type(command) for _, command in commands} == {parameters.ParsedCommand, parameters.ParsedGroup}


def test_every_parameter_is_read_without_pydantic() -> None:
    """For a kind of value without a row in READ, Typer would import pydantic."""
    whole = typer.main.get_command(make())
    seen = 0
    for path, command in walk(whole, ()):
        for parameter in command.params:
            assert parameters.reading_of(parameter) is not None, (*path, parameter.name)
            seen += 1
    assert seen > len(GROUPS) + len(TOP_COMMANDS)


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and all commands below it, each with its path."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*path, name))
