"""The checker is awake: with a rule taken away, it screams within the stated number of seeds."""

import pytest

from semq.umx_t.grids import GRIDS
from tests.simulation.mutations import MUTATIONS
from tests.simulation.test_campaign import run


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_loss_of_a_rule_is_noticed(name: str) -> None:
    status, report, messages = run("--mutation", name, "--seeds", str(MUTATIONS[name].seeds), "--stop")
    assert status == 1
    # The oracle has noticed it, and not the patch failed; only what guards late reads does so by an exception.
    assert ("Traceback" in messages) is (name == "late_read"), messages
    assert report["violations"] + report["lost"] + report["duplicated"] + report["unclean"] > 0
    # It is the rule that was missed: the same world is fine with it.
    for seed in report["failed_seeds"]:
        focus = ",".join(sorted(MUTATIONS[name].focus))
        status, _, messages = run("--focus", focus, "--first", str(seed), "--seeds", "1")
        assert status == 0, messages


def test_enough_rules_of_safety_are_among_them() -> None:
    safety = {f"R{number}" for number in (*range(1, 16), 23, 24)}
    assert len({mutation.rule for mutation in MUTATIONS.values()} & safety) >= 10


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_leaves_nothing_behind(name: str) -> None:
    before = [dict(grid.rules()) for grid in GRIDS]
    with MUTATIONS[name].applied():
        pass
    assert [dict(grid.rules()) for grid in GRIDS] == before
