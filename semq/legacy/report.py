"""The result of an import: counts by table, and the rows that were not imported, with reasons."""

from collections import Counter
from typing import Any

from msgspec import Struct, field

LISTED_MAX = 1000  # maximum number of rows in ``listed``; --rejects writes all


class TableReport(Struct):
    """The counts of one older table."""

    rows: int = 0
    statuses: Counter[str] = field(default_factory=Counter)  #: by status in the older SEMQ
    results: Counter[str] = field(default_factory=Counter)  #: by result, for instance "sent"
    reasons: Counter[str] = field(default_factory=Counter)  #: rejected rows by reason

    def as_json(self) -> dict[str, object]:
        return {
            "rows": self.rows, "statuses": dict(self.statuses), **dict(self.results), "reasons": dict(self.reasons),
        }  # fmt: skip


class ImportReport(Struct):
    """The result of an import."""

    source: str
    node: str
    dry_run: bool
    tables: dict[str, TableReport] = field(default_factory=dict)
    listed: list[dict[str, Any]] = field(default_factory=list)  #: the first rows that were not imported
    stopped: str = ""  #: why the import stopped early; else empty

    def total(self, result: str) -> int:
        return sum(table.results[result] for table in self.tables.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": not self.stopped and not self.total("rejected") and not self.total("unanswered"),
            "source": self.source, "node": self.node, "dry_run": self.dry_run, "stopped": self.stopped,
            "rows": sum(table.rows for table in self.tables.values()),
            "rejected": self.total("rejected"), "unanswered": self.total("unanswered"),
            "tables": {name: table.as_json() for name, table in self.tables.items()},
            "not_taken": self.listed,
        }  # fmt: skip
