"""Lists that nodes of several versions read: each gets the deeds that it knows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_reconcile.errors import BadRepairList
from spark_reconcile.repair.repair_list import RepairIndex, RepairLine, read_repair, write_index, write_lists
from spark_reconcile.storage import Place

ROOT = Path(__file__).parents[3]
LINES = [
    RepairLine(f"1.{node}.1.1.3f.{number}", deed, "sender", "f", "NOT_DELIVERED", f"1.{node}", "1.c")
    for number, (node, deed) in enumerate((("a", "submit"), ("a", "inquire"), ("b", "submit"), ("hub2", "close")))
]
COMMIT = "2be3f32b"  # a version without the deed ``submit``
READ = """import json, sys
from spark_reconcile.errors import BadRepairList
from spark_reconcile.repair.repair_list import read_repair
from spark_reconcile.storage import Place
folder, *nodes = sys.argv[1:]
def deeds(node):
    try:
        return [line.deed for line in read_repair(Place.at(folder), node)]
    except BadRepairList as error:
        return error.code
print(json.dumps({node: deeds(node) for node in nodes}))
"""


@pytest.fixture(scope="module")
def lists(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the lists of three nodes: both kinds of deeds, later ones only, first ones only."""
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


def test_an_older_version_reads_the_deeds_that_it_knows(lists: Path, tmp_path: Path) -> None:
    archive = ["git", "-C", str(ROOT), "archive", COMMIT, "semq", "spark_reconcile"]
    sources = subprocess.run(archive, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=sources, check=True)
    command = [sys.executable, "-P", "-c", READ, str(lists), "1.a", "1.b", "1.hub2", "1.c"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"1.a": ["inquire"], "1.b": [], "1.hub2": ["close"], "1.c": []}


def test_a_damaged_second_list_is_refused(lists: Path, tmp_path: Path) -> None:
    for file in lists.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "1.b.later.jsonl").unlink()
    with pytest.raises(BadRepairList, match="missing beside its index"):
        read_repair(Place.at(tmp_path), "1.b")
