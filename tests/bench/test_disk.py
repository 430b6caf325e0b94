"""The probe of the disk: it measures, and cleans up after itself."""

from pathlib import Path

from bench.disk import probe


def test_the_probe_counts_its_samples_and_leaves_nothing_behind(tmp_path: Path) -> None:
    found = probe(tmp_path, samples=20)
    assert found["samples"] == 20
    assert 0 < found["p50_us"] <= found["p95_us"]
    assert list(tmp_path.iterdir()) == []
