"""The result of an import: counts by table, and the rows that were not imported, with reasons."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LISTED_MAX = 1000  # rows in ``listed``; further rows are only counted, but --rejects writes all rows to a file


@dataclass(slots=True)
class TableReport:
    """The counts of one older table."""

    rows: int = 0
    statuses: Counter[str] = field(default_factory=Counter)  #: number of rows by status in the older SEMQ
    results: Counter[str] = field(default_factory=Counter)  #: number of rows by result, for instance "sent"
    reasons: Counter[str] = field(default_factory=Counter)  #: number of rejected rows by reason

    def as_json(self) -> dict[str, Any]:
        """Return the counts for ``--json``."""
        return {
            "rows": self.rows, "statuses": dict(self.statuses), **dict(self.results), "reasons": dict(self.reasons),
        }  # fmt: skip


@dataclass(slots=True)
class ImportReport:
    """The result of an import."""

    source: str
    node: str
    dry_run: bool
    tables: dict[str, TableReport] = field(default_factory=dict)
    listed: list[dict[str, Any]] = field(default_factory=list)  #: the first rows that were not imported
    stopped: str = ""  #: the reason why the import stopped early; empty if it did not

    def total(self, result: str) -> int:
        """Return the number of rows with a result, in all tables."""
        return sum(table.results[result] for table in self.tables.values())

    def as_json(self) -> dict[str, Any]:
        """Return all counts for ``--json``."""
        return {
            "ok": not self.stopped and not self.total("rejected") and not self.total("unanswered"),
            "source": self.source, "node": self.node, "dry_run": self.dry_run, "stopped": self.stopped,
            "rows": sum(table.rows for table in self.tables.values()),
            "rejected": self.total("rejected"), "unanswered": self.total("unanswered"),
            "tables": {name: table.as_json() for name, table in self.tables.items()},
            "not_taken": self.listed,
        }  # fmt: skip
