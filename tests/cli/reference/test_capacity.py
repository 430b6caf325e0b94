"""``semq capacity``: the figures follow from the measured ones, and grow with what the platform has to carry."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

from semq.cli.reference.capacity import KIB, MEASURED, SESSIONS_MAX, CapacityPlan
from tests.cli.command import semq


def plan(institutions: int, documents: int, **changes: float) -> CapacityPlan:
    return CapacityPlan(institutions, documents, **{"document_bytes": 0.0, "stored": 0.2, "peak": 7.0} | changes)


def test_the_figures_of_one_process_follow_from_the_measured_ones() -> None:
    facts = plan(100, 864_000, peak=1, document_bytes=KIB).facts()
    assert (facts["documents_s"], facts["instances"], facts["reserve"], facts["stores"]) == (10, 1, 0, 1)
    assert math.isclose(facts["hub_cores"], 10 * MEASURED["hub_10"].value + 100 * MEASURED["session_rest"].value)
    assert math.isclose(facts["node_cores"], 0.1 * MEASURED["both_nodes_10"].value)
    assert facts["held_bytes_day"] == 0.2 * 864_000 * 2 * KIB
    assert facts["ledger_lines_day"] == 7 * 864_000


def test_a_hub_with_much_work_needs_what_its_batches_cost() -> None:
    facts = plan(1, 864_000_000, peak=0.5).facts()
    busy = 5000 * (0.8 * MEASURED["hub_online"].value + 0.2 * MEASURED["hub_stored"].value)
    assert (facts["documents_s"], facts["instances"]) == (5000, 1)
    assert math.isclose(facts["hub_cores"], busy + MEASURED["session_rest"].value)


@pytest.mark.parametrize(
    ("institutions", "documents", "instances"),
    [(SESSIONS_MAX, 1000, 1), (SESSIONS_MAX + 1, 1000, 2), (100_000, 100_000_000, 10), (10, 1_000_000_000, 18)],
)
def test_sessions_and_documents_determine_the_instances(institutions: int, documents: int, instances: int) -> None:
    facts = plan(institutions, documents).facts()
    assert (facts["instances"], facts["reserve"]) == (instances, int(instances > 1))
    assert facts["stores"] >= instances


def test_no_figure_shrinks_with_more_documents() -> None:
    rising = [plan(1000, 10**power).facts() for power in range(3, 10)]
    assert all(
        less[name] <= more[name]
        for less, more in pairwise(rising)
        for name in less
        if name not in {"instance_memory_bytes", "login_storm_s"}
    )


def test_each_measured_figure_has_a_command_of_the_benchmarks() -> None:
    options = "".join(path.read_text() for path in (Path(__file__).parents[3] / "bench").rglob("*.py"))
    for one in MEASURED.values():
        run, bench, *words = one.command.split()
        assert (run, bench) == ("./run", "bench")
        assert all(word.isdigit() or word in options for word in words), one.command


def test_the_command_prints_a_table_or_facts_with_the_measured_figures() -> None:
    words = ("capacity", "--institutions", "500", "--documents-per-day", "1000000")
    printed = semq(*words)
    assert (printed.status, "instances of the hub" in printed.out, "./run bench" in printed.err) == (0, True, True)
    facts = semq(*words, "--json").data
    assert facts["instances"] == 1
    assert facts["measured"]["login"] == {
        "value": 2.1e-3, "unit": "s of a core, a login by TLS", "command": "./run bench sessions --institutions 10000",
    }  # fmt: skip
    assert semq("capacity", "--institutions", "0", "--documents-per-day", "1").status == 2
