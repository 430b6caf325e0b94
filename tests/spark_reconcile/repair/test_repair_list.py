"""Lists of several nodes: each reads its own deeds."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_reconcile.errors import BadRepairList
from spark_reconcile.repair.repair_list import RepairIndex, RepairLine, read_repair, write_index, write_lists
from spark_reconcile.storage import Place

LINES = [
    RepairLine(f"1.{node}.1.1.3f.{number}", deed, "sender", "f", "NOT_DELIVERED", f"1.{node}", "1.c")
    for number, (node, deed) in enumerate((("a", "submit"), ("a", "inquire"), ("b", "submit"), ("hub2", "close")))
]


@pytest.fixture(scope="module")
def lists(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the lists of three nodes."""
    folder = tmp_path_factory.mktemp("lists")
    exceptions = spark.createDataFrame(pa.Table.from_pylist([msgspec.to_builtins(line) for line in LINES]))
    index = RepairIndex("2026-11-20", "r", "f", {})
    place = Place.at(folder / "repair")
    deeds = write_lists(exceptions, place, Place.at(folder / "staging"), index)
    assert deeds == {"submit": 2, "inquire": 1, "close": 1}
    write_index(place, index, None)
    return folder / "repair"


@pytest.mark.parametrize("node", ["1.a", "1.b", "1.hub2", "1.c"])
def test_a_node_reads_all_its_deeds(lists: Path, node: str) -> None:
    wanted = [line for line in LINES if line.sender == node]
    found = read_repair(Place.at(lists), node)
    assert sorted(found, key=lambda line: line.lk0) == wanted


def test_a_missing_list_is_refused(lists: Path, tmp_path: Path) -> None:
    for file in lists.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "1.b.jsonl").unlink()
    with pytest.raises(BadRepairList, match="missing beside its index"):
        read_repair(Place.at(tmp_path), "1.b")
