"""``./run bench large --beside``: a short run of each kind, from start to figures."""

import json

import pytest

from bench.beside import STAGES
from bench.large import DOCUMENTS, PIECES
from tests.bench.runs import run_bench

SHORT = ("--rounds", "1", "--seconds", "0.5", "--small", "20", "--json")


@pytest.mark.parametrize(
    ("kind", "more", "size"),
    [(DOCUMENTS, ("--size", "300000", "--per-s", "4"), 600_000), (PIECES, ("--bytes", "17000000"), 17_000_000)],
)
def test_small_documents_are_measured_alone_and_beside_large_ones(kind: str, more: tuple[str, ...], size: int) -> None:
    run = run_bench("large", "--beside", kind, *more, *SHORT)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert [portion["bytes"] for portion in found["large"]] == [size]
    for turn in ("alone", "beside"):
        assert found[f"small_p99_ms_{turn}"] == found[turn]["delivered_p99_ms"]
        assert all(found[turn][f"{stage}_p50_ms"] > 0 for stage in STAGES)
    assert found["ratio"] == round(found["small_p99_ms_beside"] / found["small_p99_ms_alone"], 2)
