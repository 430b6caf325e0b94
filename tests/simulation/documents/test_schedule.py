"""Scheduled documents are sent in time and once, despite crashes, set clocks and restores, and none waits for ever."""

from tests.depth import deeper
from tests.simulation.campaign import Totals, run_share
from tests.simulation.runs import SimulatorProcess

FOCUS = frozenset(
    {"schedule", "crash_local", "crash_at_step", "restore_local", "clock_jump", "cancel", "operator", "commit"}
)


def test_scheduled_documents_are_sent_once_and_not_before_their_time(runs: SimulatorProcess) -> None:
    totals: Totals = runs(run_share, 0, deeper(30, 60), focus=FOCUS)
    assert totals.failed == []
    assert totals.outcomes["DELIVERED"] > 60
