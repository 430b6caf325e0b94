"""Figures of the installation each half minute: memory, descriptors, rows, WAL, latencies; and how they grew."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, quantiles
from time import time
from typing import Any

import psycopg

from tests.campaign import statements
from tests.campaign.world import CampaignWorld

EVERY_S = 30.0
Sample = dict[str, Any]


async def record(world: CampaignWorld, samples: list[Sample]) -> None:
    """Append a sample each half minute until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        samples.append(await asyncio.to_thread(sample, world))


def sample(world: CampaignWorld) -> Sample:
    """Return the figures now."""
    running = {name: node.pid for name, node in world.nodes.items() if node.pid is not None}
    rows, wal = {}, {}
    try:
        for store, count, written in statements.sizes(world):
            rows[store], wal[store] = count, written
    except psycopg.OperationalError:  # a server is down at the moment
        rows = wal = {}
    return {
        "at": round(time(), 1),
        "rss_mib": {name: _rss_mib(pid) for name, pid in running.items()},
        "descriptors": {name: _descriptors(pid) for name, pid in running.items()},
        "rows": rows,
        "wal_mib": {name: round(size / 2**20, 1) for name, size in wal.items()},
    }


def _rss_mib(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return round(int(fields[1]) * 4096 / 2**20, 1)


def _descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def growth(samples: Sequence[Sample], name: str) -> float:
    """Return how much the sum of a figure over all nodes grew from the first third to the last; 0 for few samples."""
    totals = [sum(each[name].values()) for each in samples if each[name]]
    third = len(totals) // 3
    return round(mean(totals[-third:]) - mean(totals[:third]), 1) if third else 0.0


def p99_ms(latencies: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the 99th percentile of the first and of the last third of the latencies, in milliseconds."""
    values = [value for _, value in sorted(latencies)]
    third = len(values) // 3
    if third < 2:
        return 0.0, 0.0
    first, last = (quantiles(part, n=100, method="inclusive")[98] for part in (values[:third], values[-third:]))
    return round(first, 1), round(last, 1)
