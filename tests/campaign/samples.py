"""Figures of the installation each half minute: memory, descriptors, rows, sizes, latencies; growth and charts."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import mean, quantiles
from time import time
from typing import Any

import psycopg
import vl_convert

from tests.campaign import statements
from tests.campaign.world import CampaignWorld

EVERY_S = 30.0
Sample = dict[str, Any]
# Field of a sample | title of its chart
CHARTS = {
    "rss_mib": "Resident memory, MiB", "descriptors": "Open descriptors", "rows": "Rows in queues and dedup ledger",
    "size_mib": "Size of the databases, MiB", "wal_mib": "WAL written, MiB", "latency_ms": "Latency until receipt, ms",
}  # fmt: skip


async def record(world: CampaignWorld, samples: list[Sample]) -> None:
    """Append a sample each half minute, also to a file in the folder of the campaign, until cancelled."""
    with (world.folder / "samples.jsonl").open("w", encoding="utf-8", buffering=1) as file:
        while True:
            await asyncio.sleep(EVERY_S)
            samples.append(await asyncio.to_thread(sample, world))
            print(json.dumps(samples[-1]), file=file)


def sample(world: CampaignWorld) -> Sample:
    """Return the figures now."""
    running = {name: node.pid for name, node in world.nodes.items() if node.pid is not None}
    now = time()
    try:
        sizes = list(statements.sizes(world))
    except psycopg.OperationalError:  # a server is down at the moment
        sizes = []
    recent = [value for at, value in list(world.notebook.latencies) if at > now - EVERY_S]
    return {
        "at": round(now, 1),
        "rss_mib": {name: _rss_mib(pid) for name, pid in running.items()},
        "descriptors": {name: _descriptors(pid) for name, pid in running.items()},
        "rows": {each.store: each.rows for each in sizes},
        "size_mib": {each.store: round(each.size / 2**20, 1) for each in sizes},
        "wal_mib": {each.store: round(each.wal / 2**20, 1) for each in sizes},
        "latency_ms": {"p50": _percentile(recent, 50), "p99": _percentile(recent, 99)},
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


def thirds(samples: Sequence[Sample], name: str) -> dict[str, tuple[float, float]]:
    """Return the mean of a figure in the first third of the samples and in the last one, by node or store.

    Nodes that did not run in one of the thirds are left out.
    """
    third = len(samples) // 3
    first, last = (_means(part, name) for part in (samples[:third], samples[len(samples) - third :]))
    return {key: (first[key], last[key]) for key in first if key in last}


def growth(samples: Sequence[Sample], name: str) -> float:
    """Return how much a figure grew from the first third to the last, all nodes together; 0 for few samples."""
    return round(sum(last - first for first, last in thirds(samples, name).values()), 1)


def _means(samples: Sequence[Sample], name: str) -> dict[str, float]:
    keys = dict.fromkeys(key for each in samples for key in each[name])
    return {key: mean(each[name][key] for each in samples if key in each[name]) for key in keys}


def p99_ms(latencies: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the 99th percentile of the first and of the last third of the latencies, in milliseconds."""
    values = [value for _, value in sorted(latencies)]
    third = len(values) // 3
    return _percentile(values[:third], 99), _percentile(values[len(values) - third :], 99)


def _percentile(values: Sequence[float], percent: int) -> float:
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 1) if len(values) > 1 else 0.0


def page(samples: Sequence[Sample], title: str, facts: Mapping[str, object]) -> str:
    """Return an HTML page with a chart of each figure, and the comparison of the first and the last third."""
    parts = [f"<h1>{escape(title)}</h1>", _table(("", ""), [(name, str(value)) for name, value in facts.items()])]
    for name, caption in CHARTS.items():
        rows = [
            (key, f"{first:.1f}", f"{last:.1f}", f"{last - first:+.1f}")
            for key, (first, last) in thirds(samples, name).items()
        ]
        columns = ("", "first third", "last third", "difference")
        parts += [f"<h2>{caption}</h2>", _chart(samples, name), _table(columns, rows)]
    style = (
        "body{font:14px system-ui;margin:2em} td,th{padding:1px 10px;text-align:right} td:first-child{text-align:left}"
    )
    return f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{style}</style>{''.join(parts)}"


def _chart(samples: Sequence[Sample], name: str) -> str:
    began = samples[0]["at"] if samples else 0.0
    values = [
        {"minutes": round((each["at"] - began) / 60, 2), "value": value, "of": key}
        for each in samples for key, value in each[name].items()
    ]  # fmt: skip
    axes = {axis: {"field": field, "type": "quantitative"} for axis, field in (("x", "minutes"), ("y", "value"))}
    colour = {"field": "of", "type": "nominal", "title": None}
    spec = {
        "data": {"values": values}, "mark": {"type": "line", "point": True}, "width": 640, "height": 180,
        "encoding": {**axes, "color": colour},
    }  # fmt: skip
    return str(vl_convert.vegalite_to_svg(spec))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    return f"<table>{line(columns, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
