"""The reconciliation of the demo: success if it finds the planted defects and nothing unexplained."""

from pathlib import Path

import pytest

from semq.demo import reconciliation
from semq.demo.reconciliation import Reconciliation, count_exceptions

PLANTED = [{"lk0": "L1", "verdict": "NOT_DELIVERED"}, {"lk0": "L2", "verdict": "UNKNOWN_ORIGIN"}]


@pytest.mark.parametrize(
    ("found", "is_good"),
    [
        (Reconciliation("left_out"), True),
        (Reconciliation("met"), True),
        (Reconciliation("breached", forgotten=1), True),
        (Reconciliation("breached", strange=1), False),
        (Reconciliation("partial"), False),
        (Reconciliation("failed"), False),
        (Reconciliation("breached", planted=PLANTED, found=2), True),
        (Reconciliation("breached", planted=PLANTED, found=1), False),
        (Reconciliation("breached", planted=PLANTED, found=2, strange=1), False),
        (Reconciliation("met", repaired={"10008": {"resolved": 1}, "56001": {}}), True),
    ],
)
def test_a_result_is_good_if_it_has_the_planted_defects_and_nothing_unexplained(
    found: Reconciliation, is_good: bool
) -> None:
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
def test_exceptions_are_counted_by_cause(
    tmp_path: Path, listed: str, hub_died: bool, seen: tuple[int, int, int]
) -> None:
    sheet = tmp_path / "exceptions.csv"
    rows = "\n".join(["Message (LK0),Verdict,Finding", *listed.split()])
    sheet.write_text(f"\ufeff{rows}\n", encoding="utf-8")
    assert count_exceptions(sheet, PLANTED, hub_died=hub_died) == seen


@pytest.mark.parametrize("script", [None, "#!/bin/sh\nexit 1\n"])
async def test_without_spark_the_step_is_skipped_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    run = tmp_path / "run"
    if script is not None:
        run.write_text(script)
        run.chmod(0o755)
    monkeypatch.setattr(reconciliation, "RUN", run)
    monkeypatch.setattr(reconciliation, "find_spec", lambda name: None)
    received: list[str] = []
    found = await reconciliation.reconcile({}, received.append, inject=False, hub_died=False)
    assert (found.outcome, found.is_good) == ("left_out", True)
    assert "./run setup spark" in found.detail
    assert bool(received) is (script is not None)
