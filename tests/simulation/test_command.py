"""The replay of a seed from the command line is the run that the campaign had with the same options."""

from contextlib import redirect_stdout
from io import StringIO

import pytest

from tests.simulation.campaign import run_share
from tests.simulation.command import main
from tests.simulation.runs import SimulatorProcess


def printed(*arguments: str) -> str:
    """Return the output of the command."""
    output = StringIO()
    with redirect_stdout(output):
        main(arguments)
    return output.getvalue()


@pytest.mark.parametrize("mutation", [None, "inc"])
@pytest.mark.parametrize("instances", [0, 2])
def test_a_replay_uses_mutation_and_instances_together(
    runs: SimulatorProcess, mutation: str | None, instances: int
) -> None:
    totals = runs(run_share, 5, 1, mutation=mutation, instances=instances)
    options = [*(("--mutation", mutation) if mutation else ()), "--instances", str(instances)]
    line, *_ = runs(printed, "--replay", "5", *options).splitlines()
    assert line == f"seed=5 steps={totals.steps} faults={totals.faults} messages={totals.messages}"
