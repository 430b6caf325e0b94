"""The oracle finds a violation within the stated number of seeds when a rule is removed."""

import pytest

from semq.umx_t.grids import GRIDS
from tests.depth import deeper
from tests.simulation.campaign import run_share
from tests.simulation.mutations import MUTATIONS
from tests.simulation.runs import SimulatorProcess


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_loss_of_a_rule_is_noticed(runs: SimulatorProcess, name: str) -> None:
    mutation = MUTATIONS[name]
    found = runs(run_share, deeper(mutation.first_seed, 0), mutation.seed_count, mutation=name, stop=True)
    assert not found.is_clean
    # The oracle reports a violation. Only `late_read` ends with an exception: the store refuses reads after a unit.
    assert any("Traceback" in text for _, text in found.failed) is (name == "late_read"), found.failed
    # With the rule, the same run has no violation.
    for seed, _ in found.failed:
        assert runs(run_share, seed, 1, focus=mutation.focus).failed == []


def test_at_least_ten_safety_rules_have_a_mutation() -> None:
    safety = {f"N{number}" for number in (*range(1, 16), 23, 24)}
    assert len({mutation.rule for mutation in MUTATIONS.values()} & safety) >= 10


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_restores_the_grids(name: str) -> None:
    before = [dict(grid.rules()) for grid in GRIDS]
    with MUTATIONS[name].applied():
        pass
    assert [dict(grid.rules()) for grid in GRIDS] == before
