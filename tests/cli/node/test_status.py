"""The printed form of the status of a node."""

import re

import pytest

from semq.answers.status import HubLink, NodeStatus, PartnerStatus
from semq.cli.node.status import print_status
from semq.cli.output.printer import Output


def test_a_partner_whose_presence_is_unknown_is_called_neither_online_nor_offline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    online = {"1.10008": True, "1.56001": None, "1.88001": False}
    partners = {node: PartnerStatus(online=is_online) for node, is_online in online.items()}
    hub = HubLink(link="down", last_error="closed")
    print_status(Output(as_json=False), NodeStatus(node="1.10007", kind="local", hub=hub, partners=partners))
    out = capsys.readouterr().out
    assert re.findall(r"^(\d+) +(\w+)", out, re.MULTILINE) == [("10008", "yes"), ("56001", "unknown"), ("88001", "no")]
