"""The journal of an import: entries after a restart, and files that cannot be used."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from semq.legacy.errors import JournalUnusable
from semq.legacy.journal import ImportJournal
from tests.legacy import sample


def test_entries_are_read_again_after_a_restart(tmp_path: Path) -> None:
    journal = ImportJournal(tmp_path / "j")
    journal.add([("a", "sent", "L1", "D1"), ("b", "noted", "L2", "")])
    journal.add([("a", "sent", "L9", "D9")])
    journal.close()
    reopened = ImportJournal(tmp_path / "j")
    assert reopened.known(["a", "b", "c"]) == {"a": "D1", "b": ""}
    assert reopened.known([]) == {}
    reopened.close()


def test_entries_of_a_journal_from_before_digests_are_read_without_them(tmp_path: Path) -> None:
    sample.write_journal_without_digests(tmp_path / "j", ["a"])
    journal = ImportJournal(tmp_path / "j")
    journal.add([("a", "sent", "L9", "D9"), ("b", "sent", "L2", "D2")])
    assert journal.known(["a", "b"]) == {"a": "", "b": "D2"}
    journal.close()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("something else" * 100)
    for file in (tmp_path / "j", tmp_path / "none" / "j"):
        with pytest.raises(JournalUnusable):
            ImportJournal(file)


def test_a_journal_that_cannot_be_written_any_more_is_an_error_of_the_import(tmp_path: Path) -> None:
    journal = ImportJournal(tmp_path / "j")
    with closing(sqlite3.connect(tmp_path / "j")) as connection, connection:
        connection.execute("DROP TABLE taken")
    with pytest.raises(JournalUnusable):
        journal.add([("a", "sent", "L1", "D1")])
    with pytest.raises(JournalUnusable):
        journal.known(["a"])
    journal.close()


def test_a_journal_without_a_file_begins_empty() -> None:
    journal = ImportJournal(None)
    assert journal.known(["a"]) == {}
    journal.close()
