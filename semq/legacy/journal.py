"""The journal of an import: the rows that the node has taken, in a file of SQLite.

A repeat of the import skips them. Entries are written after the node's answer, many in one transaction. A row that
was taken but not yet written is recognised by its token, which a node keeps for ``token_days``.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from semq.legacy.errors import JournalUnusable

TABLE = "CREATE TABLE IF NOT EXISTS taken (token TEXT PRIMARY KEY, outcome TEXT NOT NULL, lk0 TEXT NOT NULL)"


class ImportJournal:
    """The journal in one file; None: an empty one that keeps nothing (dry runs without a file)."""

    def __init__(self, file: Path | None) -> None:
        try:
            self._db = sqlite3.connect(file or ":memory:", check_same_thread=False)
            if file is not None:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(TABLE)
            self._db.commit()
        except sqlite3.Error as error:
            raise JournalUnusable(file=str(file), cause=str(error)) from error

    def known(self, tokens: Sequence[str]) -> set[str]:
        """Return the tokens of rows that were taken."""
        marks = ",".join("?" * len(tokens))
        return {token for (token,) in self._db.execute(f"SELECT token FROM taken WHERE token IN ({marks})", tokens)}

    def add(self, entries: Iterable[tuple[str, str, str]]) -> None:
        """Write entries (token, outcome, LK0) durably."""
        with self._db:
            self._db.executemany("INSERT OR IGNORE INTO taken VALUES (?, ?, ?)", entries)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
