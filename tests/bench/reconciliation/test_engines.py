"""The engines compared with Spark find the true verdicts; otherwise their times would have no meaning."""

from datetime import date
from pathlib import Path

import pytest

from bench.reconciliation.engines import ENGINES
from bench.reconciliation.invention import generate
from semq.clock import SystemClock
from spark_reconcile.days import Calendar
from spark_reconcile.storage import Place

DAY = date(2026, 11, 20)


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_verdicts_are_those_of_the_truth(tmp_path: Path, engine: str) -> None:
    root = Place.at(tmp_path)
    truth = generate(root / "extracts", root / "truth", DAY, Calendar(), SystemClock(), 600, nodes=3, defects=20)
    result = ENGINES[engine](tmp_path, DAY, 512)
    assert result["verdicts"] == truth.verdicts
    assert result["seconds"] > 0
