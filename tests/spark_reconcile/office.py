"""Ledgers in a short notation: ``office.write(message, "S:ACCEPTED@0 H:FORWARDED@24 R:RECEIVED@40")``.

A step of a course is ``side:EVENT@milliseconds`` after the acceptance. Letters after the time: c with the locator of a
stored copy, x with other bytes. ``office.extract`` then writes one extract for each node.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar
from spark_reconcile.extracts.extract import Extract, LedgerOrigin, batches_of
from spark_reconcile.extracts.manifest import MANIFEST_FILE, ExtractPart, Manifest, date_folder, folder_of
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place

DAY = date(2026, 11, 20)
HUB = "2.hub"
INCARNATION = "3f2a"
MIDNIGHT = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000
# Courses of messages that are delivered: forwarded by the hub, or from its store.
FORWARD_COURSE = "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 R:RECEIVED@40 S:FORWARDED@46 S:DELIVERED@90 R:SENDER_ACKED@120"
STORE_COURSE = (
    "S:ACCEPTED@0 S:SENT@3 H:STORED@24c S:STORED@46c H:SENT@60000c R:RECEIVED@60020c H:RELEASED@60050c "
    "R:PLATFORM_ACKED@60080c S:DELIVERED@60090 R:SENDER_ACKED@60130"
)
_SIDES = {"S": Side.SENDER, "H": Side.HUB, "R": Side.RECEIVER}


class StandingClock:
    """A clock that does not advance, so that repeated results are equal."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)
        self._dice = random.Random(7)

    def monotonic(self) -> float:
        return self.now.timestamp()

    def wall(self) -> datetime:
        return self.now

    def random(self) -> float:
        return 0.5

    def incarnation(self) -> int:
        return 7

    def uuid(self) -> UUID:
        return UUID(int=self._dice.getrandbits(128))


@dataclass(frozen=True)
class OfficeMessage:
    """A message of class 3 with a receipt."""

    number: int
    sender: str = "1.a"
    receiver: str = "1.b"
    at: int = 10 * HOUR  #: time of acceptance: milliseconds after midnight of DAY

    @property
    def lk0(self) -> str:
        return f"{self.sender}.1.1.{INCARNATION}.{self.number}"


@dataclass
class Office:
    """A hub and its institutions."""

    root: Path
    clock: StandingClock
    lines: dict[str, list[dict[str, object]]] = field(default_factory=dict)

    @property
    def extracts(self) -> Place:
        return Place.at(self.root / "extracts")

    @property
    def settings(self) -> ReconcileSettings:
        return ReconcileSettings(extracts=str(self.root / "extracts"), reports=str(self.root / "reports"))

    def ledger_of(self, name: str) -> list[dict[str, object]]:
        """Return the ledger of a node, and create an empty one if it has none."""
        return self.lines.setdefault(name, [])

    def write(self, message: OfficeMessage, course: str, skew: dict[str, int] | None = None) -> OfficeMessage:
        """Write the lines of a course; ``skew``: by node, the milliseconds by which its clock is fast."""
        for name in (message.sender, message.receiver, HUB):
            self.ledger_of(name)
        for step in course.split():
            side, _, event_and_time = step.partition(":")
            event, _, time_and_marks = event_and_time.partition("@")
            time = time_and_marks.rstrip("cx")
            name = {"S": message.sender, "H": HUB, "R": message.receiver}[side]
            after = int(time) + (skew or {}).get(name, 0)
            self.add(name, message, _SIDES[side], Event[event], after, time_and_marks[len(time) :])
        return message

    def add(
        self, name: str, message: OfficeMessage, side: Side, event: Event, after: int, marks: str = ""
    ) -> dict[str, object]:
        """Write one line into the ledger of a node, ``after`` milliseconds after the acceptance of the message.

        The returned line may be changed until ``extract``.
        """
        ledger = self.ledger_of(name)
        digest = "d1" if event in (Event.ACCEPTED, Event.RECEIVED) else ""
        line: dict[str, object] = {
            "node": name, "store": "1.1", "seq": len(ledger) + 1, "at": MIDNIGHT + message.at + after, "side": int(side),
            "event": int(event), "lk0": message.lk0, "source": message.sender, "target": f"{message.receiver}/buyer",
            "att": 1 if event is Event.SENT else 0, "lk1": f"1.1.{message.number}" if "c" in marks else "",
            "app_key_hash": None, "app_domain": None, "app_type": None, "app_subtype": None,
            "digest": "other" if "x" in marks else digest, "size": 1000 if digest else 0, "reason": "",
            "save_fwd": 3 if event is Event.ACCEPTED else None,
            "ack2": True if event is Event.ACCEPTED else None,
        }  # fmt: skip
        ledger.append(line)
        return line

    def extract(self, day: date = DAY, only: Iterable[str] | None = None) -> dict[str, Manifest]:
        """Write the extracts of a date, of all nodes or of those in ``only``; return the manifests by node."""
        manifests = {}
        for name in only if only is not None else list(self.lines):
            origin = LedgerOrigin(name, role="platform" if name == HUB else "local")
            with Extract(self.extracts, origin, day, Calendar(), self.clock) as extract:
                window = extract.window
                lines = (line for line in self.lines[name] if window.start <= int(str(line["at"])) < window.end)
                extract.add_all(batches_of(lines))
                manifests[name] = extract.finish()
        return manifests

    def lines_of(self, message: OfficeMessage, course: str) -> list[dict[str, Any]]:
        """Write the lines of a course; return them in the order of time."""
        lengths = {name: len(lines) for name, lines in self.lines.items()}
        self.write(message, course)
        new = [line for name, lines in self.lines.items() for line in lines[lengths.get(name, 0) :]]
        return sorted(new, key=lambda line: int(str(line["at"])))

    def deliver(self, lines: Iterable[dict[str, Any]], day: date = DAY) -> None:
        """Write one extract of each ledger named in the lines, which may have any values."""
        ledgers: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for line in lines:
            ledgers.setdefault((line["node"], line["store"]), []).append(line)
        window = Calendar().window(day)
        schema = pa.schema([pa.field(field.name, field.type) for field in ARROW_SCHEMA])
        for (node, store), ledger in ledgers.items():
            part = self.extracts / date_folder(day) / folder_of(node, store) / "part-0.parquet"
            Path(part.path).parent.mkdir(parents=True)
            columns = {name: [line.get(name) for line in ledger] for name in schema.names}
            pq.write_table(
                pa.table({name: _column(columns[name], schema.field(name).type) for name in columns}), part.path
            )
            manifest = Manifest(
                node=node, store=store, role="platform" if node == HUB else "local", business_date=day.isoformat(),
                zone="UTC", cutoff="00:00", window_start=window.start, window_end=window.end, watermark=window.end,
                rows=len(ledger), files=(ExtractPart("part-0.parquet", len(ledger), part.size(), part.sha256()),),
            )  # fmt: skip
            (self.extracts / date_folder(day) / folder_of(node, store) / MANIFEST_FILE).write(manifest.encode())

    def folder(self, name: str, day: date = DAY) -> Path:
        return self.root / "extracts" / f"business_date={day}" / f"ledger={name}.1.1"

    def advance(self, days: int) -> None:
        self.clock.now += timedelta(days=days)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return a column; texts may be bytes, to write invalid texts."""
    if kind == pa.string():
        data = [value.encode() if isinstance(value, str) else value for value in values]
        return pa.array(data, pa.binary()).view(pa.string())
    return pa.array(values, kind)
