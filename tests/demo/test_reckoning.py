"""What the demo makes of a reconciliation: what was planted must be found, and nothing else."""

from pathlib import Path

import pytest

from semq.demo import reckoning
from semq.demo.reckoning import Reckoning, _sort

PLANTED = [{"lk0": "L1", "verdict": "NOT_DELIVERED"}, {"lk0": "L2", "verdict": "UNKNOWN_ORIGIN"}]


@pytest.mark.parametrize(
    ("found", "is_good"),
    [
        (Reckoning("left_out"), True),
        (Reckoning("met"), True),
        (Reckoning("breached", forgotten=1), True),
        (Reckoning("breached", strange=1), False),
        (Reckoning("partial"), False),
        (Reckoning("failed"), False),
        (Reckoning("breached", planted=PLANTED, found=2), True),
        (Reckoning("breached", planted=PLANTED, found=1), False),
        (Reckoning("breached", planted=PLANTED, found=2, strange=1), False),
        (Reckoning("met", repaired={"10008": {"resolved": 1}, "56001": {}}), True),
        (Reckoning("met", repaired={"10008": {"resolved": 1, "failed": 1}}), False),
    ],
)
def test_when_it_is_good(found: Reckoning, is_good: bool) -> None:
    assert found.is_good is is_good


@pytest.mark.parametrize(
    ("listed", "hub_died", "seen"),
    [
        ("L1,NOT_DELIVERED,f L2,UNKNOWN_ORIGIN,f", False, (2, 0, 0)),
        ("L1,NOT_DELIVERED,f", False, (1, 0, 0)),
        ("L1,UNKNOWN_ORIGIN,f", False, (0, 0, 1)),
        ("L3,STATE_CONTRADICTION,hub_has_no_trace", True, (0, 1, 0)),
        ("L3,STATE_CONTRADICTION,hub_has_no_trace", False, (0, 0, 1)),
        ("", False, (0, 0, 0)),
    ],
)
def test_what_the_report_lists_is_told_apart(
    tmp_path: Path, listed: str, hub_died: bool, seen: tuple[int, int, int]
) -> None:
    sheet = tmp_path / "exceptions.csv"
    rows = "\n".join(["Message (LK0),Verdict,Finding", *listed.split()])
    sheet.write_text(f"\ufeff{rows}\n", encoding="utf-8")
    assert _sort(sheet, PLANTED, hub_died=hub_died) == seen


@pytest.mark.parametrize("script", [None, "#!/bin/sh\nexit 1\n"])
async def test_without_spark_the_scene_is_left_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    run = tmp_path / "run"
    if script is not None:
        run.write_text(script)
        run.chmod(0o755)
    monkeypatch.setattr(reckoning, "RUN", run)
    monkeypatch.setattr(reckoning, "find_spec", lambda name: None)
    told: list[str] = []
    found = await reckoning.reckon({}, told.append, inject=False, hub_died=False)
    assert (found.outcome, found.is_good) == ("left_out", True)
    assert "./run setup spark" in found.said
    assert bool(told) is (script is not None)
