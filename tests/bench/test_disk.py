"""The probe of the disk measures until it is stopped, and removes its file."""

import asyncio
from pathlib import Path

import pytest

from bench.disk import probed


def files(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_the_probe_counts_its_samples_and_removes_its_file(tmp_path: Path) -> None:
    async with probed(tmp_path) as figures:
        assert files(tmp_path) == ["fdatasync.probe"]
    assert figures["samples"] >= 2
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["max_us"]
    assert files(tmp_path) == []


async def test_the_probe_removes_its_file_when_the_measured_work_is_cancelled(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        async with probed(tmp_path):
            raise asyncio.CancelledError
