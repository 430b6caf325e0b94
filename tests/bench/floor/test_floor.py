"""The reference of the floor: the script can repeat it, and differences are reported."""

import pytest

from bench.floor.floor import differences
from bench.floor.reference import REFERENCE, TableWork, work_of
from bench.floor.rows import RowChanges
from bench.floor.script import KEYS, steps


def test_a_difference_is_reported_with_the_figures_of_the_reference() -> None:
    references = {"a": TableWork({"tb_0031": RowChanges(1000, 2800, 1000), "semq_ledger": RowChanges(4000)}, 1000)}
    works = {"a": TableWork({"tb_0031": RowChanges(20, 36, 20), "semq_ledger": RowChanges(80)}, 20)}
    assert differences(references, works) == {"a": {"tb_0031": {"reference": [1, 2.8, 1], "now": [1, 1.8, 1]}}}


def test_changes_once_in_each_batch_do_not_count_as_differences() -> None:
    reference = TableWork({"semq_ledger": RowChanges(1000)}, 1000)
    work = TableWork({"semq_ledger": RowChanges(50), "semq_chain": RowChanges(0, 9)}, 50)
    assert differences({"hub": reference}, {"hub": work}) == {}


@pytest.mark.parametrize("phase_and_role", REFERENCE)
def test_the_script_can_repeat_all_of_the_reference(phase_and_role: tuple[str, str]) -> None:
    work = work_of(*phase_and_role, partners=1)
    assert {table for table in work.tables if not table.endswith("_stream")} <= KEYS.keys()
    assert steps(work.tables)


def test_several_partners_share_the_work_of_one() -> None:
    for partner in ("b", "b2"):
        assert work_of("online", partner, 4).per_document("tb_0030_body") == [0.25, 0, 0.25]
    assert work_of("online", "a", 4).per_document("tb_0031_body") == [1, 0, 1]
