"""Generated ledgers: the oracle gives every message its stated verdict."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.reconciliation import invention
from bench.reconciliation.invention import ALL_COURSES, generate
from spark_reconcile.days import Calendar
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, HUB, MIDNIGHT, StandingClock
from tests.spark_reconcile.oracle import OracleLine, OracleWorld, opinion


@pytest.mark.parametrize("uneven", [True, False])
def test_the_oracle_agrees_with_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uneven: bool) -> None:
    monkeypatch.setattr(invention, "SLICE", 300)
    monkeypatch.setattr(invention, "GROUP", 2)
    extracts, truth = Place.at(tmp_path / "x"), Place.at(tmp_path / "t")
    totals = generate(extracts, truth, DAY, Calendar(), StandingClock(), 1500, nodes=6, defects=50, uneven=uneven)
    rows = [row for file in (tmp_path / "x").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert totals.rows == len(rows)
    assert len({(row["node"], row["seq"]) for row in rows}) == len(rows)
    world = OracleWorld(MIDNIGHT, MIDNIGHT + 86_400_000, 900_000, {}, MIDNIGHT + 86_400_000)
    stories: dict[str, list[OracleLine]] = {}
    for number, row in enumerate(rows):
        line = _line(row, number)
        stories.setdefault(line.lk0, []).append(line)
        world.marks[line.node] = world.end
        if not world.start <= line.at < world.end:
            world.outside.add(number)
    true = {row["lk0"]: row["verdict"] for row in pq.read_table(tmp_path / "t" / "truth.parquet").to_pylist()}
    opinions = {lk0: opinion(lines, world)[1] for lk0, lines in stories.items()}
    assert opinions == true
    assert set(totals.verdicts) == {course.verdict for course in ALL_COURSES}
    assert json.loads((tmp_path / "t" / "truth.json").read_text())["verdicts"] == totals.verdicts


def _line(row: dict[str, object], number: int) -> OracleLine:
    return OracleLine(**{**{name: row[name] for name in OracleLine.__dataclass_fields__}, "seq": number})  # type: ignore[arg-type]


def test_the_same_seed_makes_the_same_ledgers(tmp_path: Path) -> None:
    for name in ("one", "two"):
        generate(
            Place.at(tmp_path / name), Place.at(tmp_path / "t"), DAY, Calendar(), StandingClock(), 100, nodes=2, seed=5
        )
    one, two = ({f.name: f.read_bytes() for f in (tmp_path / n).rglob("part-*")} for n in ("one", "two"))
    assert one == two
    assert len(list((tmp_path / "one").rglob(f"ledger={HUB}*"))) == 1


def test_messages_of_different_dates_have_different_names(tmp_path: Path) -> None:
    names: list[set[str]] = []
    for day in (DAY, DAY - timedelta(days=1)):
        generate(
            Place.at(tmp_path / "x"), Place.at(tmp_path / f"{day}"), day, Calendar(), StandingClock(), 100, nodes=2
        )
        names.append(set(pq.read_table(tmp_path / f"{day}" / "truth.parquet")["lk0"].to_pylist()))
    assert len(names[0] | names[1]) == 200
