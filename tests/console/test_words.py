"""The Chinese texts: one for every text of the pages, none unused, with the same placeholders."""

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from semq.console.words import CHECKS
from semq.service.monitoring.health import checks
from semq.service.node import PROGRAMS
from tests.console.texts import CONSOLE, WEB, every, plurals
from tests.service.monitoring.test_health import STATUS, VIOLATIONS

FIELDS = re.compile(r"%\(\w+\)s|\{\w+\}|`[^`]*`")


def test_every_check_of_a_node_has_a_name_and_a_next_step() -> None:
    state = {"running": True, "failing": {}}
    status = STATUS | {
        "drained": True, "violations": VIOLATIONS, "extract": {"exit_status": 0, "at": "", "output": ""},
        "companions": dict.fromkeys(("http", "folders", "webhooks"), state),
        "telemetry": {"failures": 3, "failing_since": 1, "dropped": 0, "last_error": "x"},
    }  # fmt: skip
    full = {"partners": {"1.56001": {"online": True, "quota_reached": True}}}
    assert {one.name for one in checks(status | full, 14.0)} <= CHECKS.keys()
    assert set(PROGRAMS) <= CHECKS.keys()


@pytest.mark.parametrize("room", [CONSOLE, WEB], ids=["console", "web"])
def test_every_text_is_translated_and_none_is_left_over(room: Path) -> None:
    with (room / "translations" / "zh.po").open("rb") as stream:
        known = {one.id: one.string for one in read_po(stream) if one.id}
    texts = {one if isinstance(one, str) else one[0]: result for one, result in known.items()}
    wanted = every(room)
    assert sorted(wanted - texts.keys()) == []
    assert sorted(texts.keys() - wanted) == []
    for text, result in texts.items():
        whole = result if isinstance(result, str) else (result or [""])[0]
        assert whole.strip(), text
        assert sorted(FIELDS.findall(whole)) == sorted(FIELDS.findall(text)), text
    assert {one[0]: one[1] for one in known if not isinstance(one, str)} == plurals(room)
