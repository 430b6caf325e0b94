"""The table of rules has those of the document, and counts occasions in cells and in what the oracle sees."""

import re
from collections import Counter
from pathlib import Path

from semq.umx_t.grids import GRIDS
from tests.simulation.oracle.rules import RULES, RULES_OF_CELL, occasions
from tests.simulation.plan import draw
from tests.simulation.runs import SimulatorProcess
from tests.simulation.world import World

EVIDENCE = Path(__file__).parents[3] / "docs/protocol/evidence.md"


def test_the_table_has_the_rules_and_switches_of_the_document() -> None:
    rows = re.findall(r"^\| (N\d+b?) (.*?) \|", EVIDENCE.read_text("utf-8"), re.MULTILINE)
    documented = [f"{rule} {switch}" for rule, text in rows for switch in re.findall(r"\(`(\w+)`[);]", text)]
    assert [rule.name for rule in RULES] == documented
    assert {name.partition(" ")[0] for name in documented} == {*(f"N{n}" for n in range(1, 34)), "N27b"}


def test_every_cell_of_the_table_is_one_of_the_grids() -> None:
    cells = {(grid.name, state.name, event.name) for grid in GRIDS for state, event in grid.rules()}
    assert RULES_OF_CELL.keys() <= cells


def test_a_cell_counts_for_each_rule_that_names_it() -> None:
    cells = Counter({("receiver", "RECV", "payload"): 3, ("class3", "FINAL", "recv"): 2, ("hub", "ABSENT", "store"): 9})
    assert occasions(Counter({"N1 dedup": 1}), cells) == {"N1 dedup": 1, "N29 ack_dups": 3, "N16 gone_reply": 2}


def occasions_of(seed: int, *focus: str) -> Counter[str]:
    world = World(draw(seed, hell=False, focus=frozenset(focus)))
    assert world.run().found == {}
    return world.oracle.counts


def test_occasions_come_from_the_faults_of_a_run(runs: SimulatorProcess) -> None:
    for name, focus in (
        ("N21 mono", ("clock_jump", "offline")),
        ("N14 commit_then_ack", ("commit", "crash_at_step")),
        ("N20 retired", ("lose_store", "offline")),
        ("N9 hub_not_final", ("offline",)),
    ):
        assert any(runs(occasions_of, seed, *focus)[name] for seed in range(12)), name
    assert not runs(occasions_of, 1, "offline")["N20 retired"]
