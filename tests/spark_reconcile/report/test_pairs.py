"""pairs.csv: one row for each pair; and the pairs on the page, with the results of earlier runs."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reconcile.report import pairs as pairs_module
from spark_reconcile.report.drill import MATRIX_NODES, matrix
from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.pairs import DateCount, Pair, Pairs, date_counts, write_pairs
from spark_reconcile.report.sheets import SheetSize
from spark_reconcile.run.limits import Breach
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import MIDNIGHT

SETTINGS = ReconcileSettings(names={"1.10": "上海凌云贸易"}, csv_rows_max=3)
# Pair, scope, verdict, messages; the worst pair first, the rows of a pair together.
ROWS = """
1.10>1.b  date     MATCHED         90
1.10>1.b  date     NOT_DELIVERED    7
1.10>1.b  date     IN_FLIGHT        3
1.10>1.b  carried  NOT_DELIVERED    2
1.b>1.10  carried  MISSING_AT_HUB   5
1.c>1.10  date     MATCHED         50
1.c>1.b   date     MATCHED         40
"""


def table(folder: Path, parts: Iterable[str] = (ROWS,)) -> Place:
    for number, text in enumerate(parts):
        rows = []
        for line in text.strip().splitlines():
            pair, scope, verdict, messages = line.split()
            sender, _, receiver = pair.partition(">")
            rows.append(
                {"scope": scope, "sender": sender, "receiver": receiver, "verdict": verdict, "messages": int(messages),
                 "oldest_at": MIDNIGHT - (scope == "carried"), "bytes": 10 * int(messages), "resends": 1,
                 "turned": int(scope == "carried"), "pieces": int(messages) // 4}
            )  # fmt: skip
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / f"part-{number:05d}.parquet")
    return Place.at(folder)


def write(tmp_path: Path, *breaches: Breach) -> tuple[list[dict[str, str]], SheetSize, tuple[Pair, ...]]:
    sheet, shown, _, institutions = write_pairs(
        table(tmp_path / "pairs.parquet"), Place.at(tmp_path / "pairs.csv"), SETTINGS, breaches
    )
    assert institutions == 3
    content = (tmp_path / "pairs.csv").read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(content, newline=""))), sheet, shown


def test_a_row_has_the_sums_of_its_pair(tmp_path: Path) -> None:
    (first, second, *_), sheet, shown = write(tmp_path, Breach("1.10>1.b", "IN_FLIGHT", "max_count", 3, 0))
    assert (first["Pair"], first["Sender"], first["Sender name"], first["Receiver"]) == (
        "1.10>1.b", "'1.10", "上海凌云贸易", "1.b",
    )  # fmt: skip
    assert [first[name] for name in ("Messages", "Matched", "Exceptions", "Share of exceptions")] == [
        "100",
        "90",
        "7",
        "0.07",
    ]
    assert [first[name] for name in ("Exceptions of earlier dates", "Bytes", "Resends")] == ["2", "1000", "3"]
    assert first["Pieces of large documents"] == "23"
    assert first["Oldest exception"] == "2026-11-19 23:59:59.999+00:00"
    assert first["Thresholds exceeded"] == "IN_FLIGHT"
    assert (first["MATCHED"], first["NOT_DELIVERED"], first["IN_FLIGHT"], first["QUARANTINED"]) == ("90", "7", "3", "0")
    assert (second["Pair"], second["Messages"], second["Share of exceptions"]) == ("1.b>1.10", "0", "")
    assert sheet == (4, 3)
    assert [pair.name for pair in shown] == ["1.10>1.b", "1.b>1.10", "1.c>1.10", "1.c>1.b"]


def test_the_worst_pairs_are_shown_and_those_with_an_exceeded_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "PAIRS_SHOWN", 1)
    breaches = (Breach("1.c>1.b", "MATCHED", "max_count", 40, 0), Breach("", "MATCHED", "max_count", 180, 0))
    _, _, shown = write(tmp_path, *breaches)
    assert [pair.name for pair in shown] == ["1.10>1.b", "1.c>1.b"]


def test_the_worst_pair_of_each_verdict_is_found_among_all_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "PAIRS_SHOWN", 1)
    _, _, worst, _ = write_pairs(table(tmp_path / "pairs.parquet"), Place.at(tmp_path / "pairs.csv"), SETTINGS, ())
    assert {name: (pair.name, figures) for name, (pair, figures) in worst.items()} == {
        "MATCHED": ("1.10>1.b", VerdictFigures(90)),
        "NOT_DELIVERED": ("1.10>1.b", VerdictFigures(7, 1, 1)),
        "IN_FLIGHT": ("1.10>1.b", VerdictFigures(3)),
        "MISSING_AT_HUB": ("1.b>1.10", VerdictFigures(0, 1, 4)),
    }


def test_the_counts_of_a_pair_are_summed_over_all_files_of_an_earlier_run(tmp_path: Path) -> None:
    place = table(tmp_path / "old", (ROWS, "1.c>1.b date PARKED 1\n1.z>1.y date A_VERDICT_OF_ANOTHER_VERSION 9"))
    assert date_counts(place, {"1.10>1.b", "1.c>1.b", "1.z>1.y", "1.no>1.body"}) == {
        "1.10>1.b": DateCount(100, 7, 2),
        "1.c>1.b": DateCount(41, 1, 0),
        "1.z>1.y": DateCount(9, 0, 0),
    }
    assert date_counts(Place.at(tmp_path / "none"), {"1.10>1.b"}) == {}


@pytest.mark.parametrize(
    ("receivers", "others", "has_all_nodes"),
    [(MATRIX_NODES - 2, 0, True), (MATRIX_NODES - 1, 0, True), (MATRIX_NODES, 0, False), (3, 1, False)],
)
def test_the_matrix_says_whether_it_has_all_institutions(receivers: int, others: int, has_all_nodes: bool) -> None:
    """``others``: institutions of pairs that the page does not show."""
    shown = tuple(Pair("1.a", f"1.b{number:02}") for number in range(receivers))
    table = matrix(Pairs(SheetSize(0, 0), shown, {}, {}, {}, [], institutions=1 + receivers + others))
    assert len(table.nodes) == min(1 + receivers, MATRIX_NODES)
    assert table.has_all_nodes is has_all_nodes
