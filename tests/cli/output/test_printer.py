"""The output of commands contains no values of Python and, on a terminal, no control characters."""

import json
from typing import Any

import pytest

from semq.cli.output.printer import Output


def test_facts_are_printed_as_words_not_python_values(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).facts({"stuck": {"cause": "HELD"}, "held": True, "reason": ["SEMQ-1", "why"], "gone": None})
    assert capsys.readouterr().out.splitlines() == ["stuck.cause  HELD", "held         yes", "reason       SEMQ-1 why"]


def test_cells_of_tables_are_printed_as_words_not_python_values(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table("a, >b", [({"x": 1}, True), (None, ["y"])])
    assert "{" not in (output := capsys.readouterr().out)
    assert "yes" in output


BAD = "x\x1b[2J\r\n\u202e\x9b\ud800y"


@pytest.mark.parametrize("method", ["line", "text", "notice", "facts", "table", "result"])
def test_control_characters_are_escaped_on_the_terminal(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    arguments: dict[str, tuple[Any, ...]] = {
        "facts": ({BAD: BAD},), "table": ("a", [(BAD,)]), "result": ({}, BAD),
    }  # fmt: skip
    getattr(out, method)(*arguments.get(method, (BAD,)))
    output = "".join(capsys.readouterr())
    assert not set(output) & set(BAD) - set("x[2J\ny")
    assert "\\x1b[2J" in output


def test_json_output_contains_the_data_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).data({"reason": BAD})
    output = capsys.readouterr().out
    assert not set(output) & set(BAD) - set("x[2J\ny")
    assert json.loads(output) == {"reason": BAD}
