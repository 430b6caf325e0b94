"""Planted defects: the oracle gives each changed message the stated verdict, all others MATCHED."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadRunRequest
from spark_reconcile.extracts.defects import DEFECTS, plant
from spark_reconcile.sources.inputs import gather
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import (
    DAY,
    FORWARD_COURSE,
    HUB,
    MIDNIGHT,
    STORE_COURSE,
    Office,
    OfficeMessage,
    StandingClock,
)
from tests.spark_reconcile.oracle import OracleLine, OracleWorld, opinion

UTC = Calendar()


def stories(office: Office) -> dict[str, list[OracleLine]]:
    """Return the lines in the extracts by message."""
    lines_of: dict[str, list[OracleLine]] = {}
    for file in sorted((office.root / "extracts").rglob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            facts = {name: row[name] for name in OracleLine.__dataclass_fields__}
            lines_of.setdefault(row["lk0"], []).append(OracleLine(**facts))
    return lines_of


@pytest.fixture
def delivered(office: Office) -> Office:
    for number in range(10):
        office.write(OfficeMessage(number), FORWARD_COURSE)
    office.write(OfficeMessage(10), STORE_COURSE)
    office.extract()
    return office


def test_every_defect_has_its_stated_verdict(delivered: Office, clock: StandingClock) -> None:
    planted = plant(Place.at(delivered.root / "extracts"), DAY, UTC, clock)
    assert [defect.verdict for defect in planted] == [verdict for verdict, _, _ in DEFECTS]
    end = MIDNIGHT + 86_400_000
    world = OracleWorld(MIDNIGHT, end, 1000, {"1.a": end, "1.b": end, HUB: end}, end)
    opinions = {lk0: opinion(lines, world) for lk0, lines in stories(delivered).items()}
    expected = {defect.lk0: ("date", defect.verdict) for defect in planted}
    assert opinions == {lk0: expected.get(lk0, ("date", "MATCHED")) for lk0 in opinions}
    assert len(opinions) == 11


def test_extracts_with_planted_defects_are_complete(delivered: Office, clock: StandingClock) -> None:
    root = Place.at(delivered.root / "extracts")
    plant(root, DAY, UTC, clock)
    assert {source.state for source in gather(root, [DAY])} == {"COMPLETE"}


def test_defects_are_not_planted_into_large_extracts(
    delivered: Office, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_reconcile.extracts.defects.ROWS_MAX", 10)
    with pytest.raises(BadRunRequest):
        plant(Place.at(delivered.root / "extracts"), DAY, UTC, clock)


def test_without_extracts_nothing_is_planted(clock: StandingClock, tmp_path: Path) -> None:
    assert plant(Place.at(tmp_path / "nothing"), DAY, UTC, clock) == []
