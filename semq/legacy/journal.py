"""The journal of an import: the rows that the node has accepted, in a file of SQLite.

A repeat of the import skips these rows. An accepted row whose entry is missing is submitted again; the node then
recognises its token, which it keeps for seven days by default (``Keep.token_days``).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from semq.legacy.errors import JournalUnusable

TABLE = "CREATE TABLE IF NOT EXISTS taken (token TEXT PRIMARY KEY, outcome TEXT NOT NULL, lk0 TEXT NOT NULL)"


class ImportJournal:
    """The journal in a file, or in memory if ``file`` is None.

    All methods except ``close`` raise JournalUnusable.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        with self._faults():
            self._db = sqlite3.connect(file or ":memory:", check_same_thread=False)
            if file is not None:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(TABLE)
            self._db.commit()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalUnusable(file=str(self._file), cause=str(error)) from error

    def known(self, tokens: Sequence[str]) -> set[str]:
        """Return the tokens whose rows were accepted."""
        placeholders = ",".join("?" * len(tokens))
        query = f"SELECT token FROM taken WHERE token IN ({placeholders})"
        with self._faults():
            return {token for (token,) in self._db.execute(query, tokens)}

    def add(self, entries: Iterable[tuple[str, str, str]]) -> None:
        """Write entries (token, outcome, LK0) durably. Entries with a known token are ignored."""
        with self._faults(), self._db:
            self._db.executemany("INSERT OR IGNORE INTO taken VALUES (?, ?, ?)", entries)

    def close(self) -> None:
        self._db.close()
