"""The floor: a fixed reference, and the places where the nodes differ from it."""

import pytest

from bench.floor.floor import differences
from bench.floor.reference import REFERENCE, TableWork, of
from bench.floor.rows import RowChanges
from bench.floor.script import KEYS, steps


def test_smaller_figures_are_named_with_the_earlier_ones() -> None:
    then = {"a": TableWork({"tb_0031": RowChanges(1000, 2800, 1000), "semq_ledger": RowChanges(4000)}, 1000)}
    now = {"a": TableWork({"tb_0031": RowChanges(20, 36, 20), "semq_ledger": RowChanges(80)}, 20)}
    assert differences(then, now) == {"a": {"tb_0031": {"reference": [1, 2.8, 1], "now": [1, 1.8, 1]}}}


def test_the_batches_of_a_node_do_not_count_as_a_change() -> None:
    same = TableWork({"semq_ledger": RowChanges(1000)}, 1000)
    assert (
        differences(
            {"hub": same}, {"hub": TableWork({"semq_ledger": RowChanges(50), "semq_chain": RowChanges(0, 9)}, 50)}
        )
        == {}
    )


@pytest.mark.parametrize("place", REFERENCE)
def test_the_script_can_repeat_all_of_the_reference(place: tuple[str, str]) -> None:
    work = of(*place, partners=1)
    assert {table for table in work.tables if not table.endswith("_stream")} <= KEYS.keys()
    assert steps(work.tables)


def test_several_partners_share_the_work_of_one() -> None:
    assert of("online", "b2", 4).each("tb_0030_body") == of("online", "b", 4).each("tb_0030_body") == [0.25, 0, 0.25]
    assert of("online", "a", 4).each("tb_0031_body") == [1, 0, 1]
