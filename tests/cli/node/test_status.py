"""The printed form of the status of a node."""

import re

import pytest

from semq.cli.node.status import print_status
from semq.cli.output.printer import Output


def test_a_partner_whose_presence_is_unknown_is_called_neither_online_nor_offline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    partners = {"1.10008": {"online": True}, "1.56001": {"online": None}, "1.88001": {"online": False}}
    print_status(Output(as_json=False), {"hub": {"link": "down", "last_error": "closed"}, "partners": partners})
    out = capsys.readouterr().out
    assert re.findall(r"^(\d+) +(\w+)", out, re.MULTILINE) == [("10008", "yes"), ("56001", "unknown"), ("88001", "no")]
