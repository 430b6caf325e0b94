"""Documents to groups and to all users of an institution reach each member once, despite crashes, restores and cuts."""

from tests.simulation.campaign import Totals, run_share
from tests.simulation.runs import Runs

FOCUS = frozenset({"groups", "schedule", "crash", "restore_local", "cut", "offline", "commit", "cancel", "poison"})


def test_each_member_of_a_group_gets_its_document_once_or_has_an_outcome(runs: Runs) -> None:
    totals: Totals = runs(run_share, 0, 60, focus=FOCUS)
    assert totals.failed == []
    assert totals.outcomes["DELIVERED"] > 60
