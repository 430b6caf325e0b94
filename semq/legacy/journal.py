"""The journal of an import: the rows that the node has accepted, in a file of SQLite.

A repeat of the import skips these rows; the digest distinguishes them from other rows with the same token. An accepted
row whose entry is missing is submitted again; the node then recognises its token, which it keeps for seven days by
default (``Keep.token_days``).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from semq.legacy.errors import JournalUnusable

TABLE = "CREATE TABLE IF NOT EXISTS taken (token TEXT PRIMARY KEY, outcome TEXT NOT NULL, lk0 TEXT NOT NULL)"
# Journals of earlier versions have no digests. Digests have their own table, so that each version can use journals of
# the other.
DIGESTS = "CREATE TABLE IF NOT EXISTS digests (token TEXT PRIMARY KEY, digest TEXT NOT NULL)"
Entry = tuple[str, str, str, str]  # token, outcome, LK0, digest; the digest of a noted row is empty


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
            self._db.execute(DIGESTS)
            self._db.commit()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalUnusable(file=str(self._file), cause=str(error)) from error

    def known(self, tokens: Sequence[str]) -> dict[str, str]:
        """Return the digests of the rows that were accepted, by token; empty where an earlier version wrote none."""
        placeholders = ",".join("?" * len(tokens))
        tables = "taken LEFT JOIN digests USING (token)"
        query = f"SELECT token, ifnull(digest, '') FROM {tables} WHERE token IN ({placeholders})"
        with self._faults():
            return dict(self._db.execute(query, tokens).fetchall())

    def add(self, entries: Iterable[Entry]) -> None:
        """Write entries durably. Entries with a known token are ignored."""
        with self._faults(), self._db:
            for token, outcome, lk0, digest in entries:
                added = self._db.execute("INSERT OR IGNORE INTO taken VALUES (?, ?, ?)", (token, outcome, lk0))
                if added.rowcount and digest:
                    self._db.execute("INSERT INTO digests VALUES (?, ?)", (token, digest))

    def close(self) -> None:
        self._db.close()
