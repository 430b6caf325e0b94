"""The durable record of an application's received documents: a SQLite file, one transaction for each document.

Repeats are recognised by @LK0. A flagged repeat is permitted (PROTOCOL.md section 1); an unflagged one is a duplicate.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS received (
    position INTEGER PRIMARY KEY, lk0 TEXT NOT NULL UNIQUE, token TEXT NOT NULL, digest TEXT NOT NULL,
    order_key TEXT NOT NULL, deliveries INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS received_token ON received (token);
CREATE TABLE IF NOT EXISTS repeat (lk0 TEXT NOT NULL, token TEXT NOT NULL, flagged INTEGER NOT NULL,
    same_bytes INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class BookEntry:
    lk0: str
    token: str
    digest: str
    order_key: str
    deliveries: int = 1  #: @Deliveries


class Book:
    """The record of one institution's application."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)  # the oracle reads in a thread
        self._db.executescript(SCHEMA)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        self._db.close()

    def write(self, entry: BookEntry, *, flagged: bool) -> bool:
        """Write a delivery durably; return False for a repeat. ``flagged``: it was marked as redelivered."""
        with self._db:
            recorded = self._db.execute("SELECT digest FROM received WHERE lk0 = ?", (entry.lk0,)).fetchone()
            if recorded is None:
                self._db.execute(
                    "INSERT INTO received (lk0, token, digest, order_key, deliveries) VALUES (?, ?, ?, ?, ?)",
                    (entry.lk0, entry.token, entry.digest, entry.order_key, entry.deliveries),
                )
            else:
                is_same = recorded[0] == entry.digest
                self._db.execute(
                    "INSERT INTO repeat VALUES (?, ?, ?, ?)",
                    (entry.lk0, entry.token, int(flagged), int(is_same)),
                )
        return recorded is None

    def entries_by_token(self) -> dict[str, list[BookEntry]]:
        """Return the received documents by token, in order of arrival; a token with two entries was accepted twice."""
        entries: dict[str, list[BookEntry]] = {}
        rows = self._db.execute("SELECT lk0, token, digest, order_key, deliveries FROM received ORDER BY position")
        for row in rows:
            entry = BookEntry(*row)
            entries.setdefault(entry.token, []).append(entry)
        return entries

    def ordered_entries(self) -> list[BookEntry]:
        """Return the documents with an order key, in order of arrival."""
        rows = self._db.execute(
            "SELECT lk0, token, digest, order_key, deliveries FROM received WHERE order_key <> '' ORDER BY position"
        )
        return [BookEntry(*row) for row in rows]

    def count_received(self, tokens: list[str]) -> int:
        """Return how many of these tokens were received."""
        received = {row[0] for row in self._db.execute("SELECT DISTINCT token FROM received")}
        return sum(token in received for token in tokens)

    def repeats(self, *, flagged: bool) -> list[tuple[str, str]]:
        """Return the repeats (LK0, token) with this flag."""
        rows = self._db.execute("SELECT lk0, token FROM repeat WHERE flagged = ?", (int(flagged),))
        return [(lk0, token) for lk0, token in rows]

    def altered_repeats(self) -> list[tuple[str, str]]:
        """Return the repeats (LK0, token) with other bytes than the first time."""
        return [(lk0, token) for lk0, token in self._db.execute("SELECT lk0, token FROM repeat WHERE same_bytes = 0")]
