"""A published report of two dates of a few institutions.

It has a wrong clock, a missing ledger, messages carried to the second date, a threshold of one pair, cut files, and
texts that would be commands, formulas or markup.
"""

import csv
import io
import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import SparkSession

from semq.clock import SystemClock
from semq.store.rows import Event, Side
from spark_reconcile.progress import Progress
from spark_reconcile.run.job import RunRequest, RunResult, run
from spark_reconcile.settings import Limit
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, HUB, Office, OfficeMessage, StandingClock
from tests.spark_reconcile.report.reading import PageReader

NEXT = DAY + timedelta(days=1)
HOSTILE = '=HYPERLINK("https://example.invalid","<script>")\x00\x1b[31m'
NAMES = {"1.a": "上海凌云贸易", "1.b": "<b>津南物流</b> & Söhne", HUB: "平台中心"}
FAST = {"1.b": HOUR}
LOST = "S:ACCEPTED@0 S:SENT@3"
UNRECORDED = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 S:FORWARDED@46"
TWICE = f"{FORWARD_COURSE} R:RECEIVED@700000"
OTHER_BYTES = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:RECEIVED@40x S:FORWARDED@46 S:DELIVERED@90 R:SENDER_ACKED@120"


@dataclass
class PublishedReports:
    """The published runs of both dates."""

    result: RunResult  #: of the second date
    folder: Path  #: of the second date
    first: Path  #: folder of the first date

    @property
    def text(self) -> str:
        return (self.folder / "report.html").read_text("utf-8")

    @property
    def page(self) -> PageReader:
        return PageReader(self.text)

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of(self.folder)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / table).to_pylist()
        return rows

    def sheet(self, name: str) -> list[dict[str, str]]:
        content = (self.folder / name).read_bytes()
        assert content.startswith(b"\xef\xbb\xbf")
        return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def summary_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
    return content


def write(office: Office) -> None:
    numbers = iter(range(1, 1000))

    def message(sender: str, receiver: str, day: int) -> OfficeMessage:
        number = next(numbers)
        return OfficeMessage(number, sender, receiver, at=day * 24 * HOUR + 10 * HOUR + number * 1000)

    for day in (0, 1):
        for sender, receiver in (("1.a", "1.b"), ("1.b", "1.a"), ("1.a", "1.c"), ("1.c", "1.b")):
            for _ in range(3):
                office.write(message(sender, receiver, day), FORWARD_COURSE, FAST)
        office.write(message("1.a", "1.b", day), LOST, FAST)
        office.write(message("1.a", "1.b", day), UNRECORDED, FAST)
    for course in (OTHER_BYTES, TWICE, UNRECORDED):
        office.write(message("1.b", "1.a", 1), course, FAST)
    refused = office.write(message("1.a", "1.b", 1), LOST)
    disclosed = {"app_key_hash": "c0ffee" * 5, "app_domain": "trade", "app_type": "order", "app_subtype": "<std>"}
    office.lines["1.a"][-2].update(disclosed)  # the line ACCEPTED of the refused message
    office.add(HUB, refused, Side.HUB, Event.REFUSED, 24)["reason"] = HOSTILE
    office.extract(DAY)
    office.advance(1)
    office.extract(NEXT, only=["1.a", "1.b", HUB])


def publish(folder: Path, spark: SparkSession) -> PublishedReports:
    """Write the ledgers, and run both dates."""
    clock = StandingClock()
    office = Office(folder, clock)
    write(office)
    limits = {"1.b>1.a": {"MATCHED": Limit(max_rate=0.1)}}
    settings = replace(office.settings, names=NAMES, languages={"1.a": "zh"}, csv_rows_max=3, pair_thresholds=limits)
    results = [
        run(settings, RunRequest(day), clock, Progress(SystemClock(), io.StringIO()), spark) for day in (DAY, NEXT)
    ]
    return PublishedReports(results[1], Path(results[1].report).parent, Path(results[0].report).parent)
