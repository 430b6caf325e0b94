"""Documents to groups and to all users of an institution reach each member once, despite crashes, restores and cuts."""

from tests.depth import deeper
from tests.simulation.campaign import Totals, run_share
from tests.simulation.runs import SimulatorProcess

SEEDS = deeper(25, 60)
FOCUS = frozenset(
    {
        "groups",
        "schedule",
        "crash_local",
        "crash_at_step",
        "restore_local",
        "cut",
        "offline",
        "commit",
        "cancel",
        "poison",
    }
)


def test_each_member_of_a_group_gets_its_document_once_or_has_an_outcome(runs: SimulatorProcess) -> None:
    totals: Totals = runs(run_share, 0, SEEDS, focus=FOCUS)
    assert totals.failed == []
    assert totals.outcomes["DELIVERED"] > 60


def test_institutions_know_the_users_who_receive_at_other_instances_of_the_hub(runs: SimulatorProcess) -> None:
    """Reports between instances are lost or overtaken; the end of each run checks which users the institutions know."""
    totals: Totals = runs(run_share, 0, SEEDS, hell=False, focus=frozenset({"groups"}), instances=2)
    assert totals.failed == []
