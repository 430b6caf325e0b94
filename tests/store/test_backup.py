"""``backup.check`` and ``delete_old`` over damaged and foreign folders: typed errors; nothing foreign is deleted."""

import json
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.store import backup
from semq.store.backup import DUMP, FILES, NOTE
from semq.store.embedded.programs import Programs
from semq.store.postgres.errors import BackupFailed, BackupUnusable, SchemaBeforeRelease, SchemaTooNew
from semq.store.postgres.schema_version import head

CONTENTS = {DUMP: b"dump", f"{FILES}/pki/node.key": b"key"}
FACTS: dict[str, Any] = {
    "node": "1.10008", "made": "2026-11-29T10:00:00+00:00", "semq": "1.0.0", "revision": head(), "owner": "semq",
    "roles": [], "checksums": {name: sha256(content).hexdigest() for name, content in CONTENTS.items()},
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(list(FACTS)), inner),
    max_leaves=8,
)
CHANGED_FACTS = st.dictionaries(st.sampled_from(list(FACTS)), JSON, min_size=1).map(
    lambda changed: json.dumps(FACTS | changed).encode()
)
CUT_NOTES = st.integers(0, len(json.dumps(FACTS)) - 1).map(lambda end: json.dumps(FACTS).encode()[:end])
NAMES = st.text() | st.sampled_from(["/etc/passwd", "../other", ".", "", FILES, NOTE, "\0", "a" * 5000])
FOREIGN_NAMES = st.dictionaries(NAMES, st.text(), min_size=1).map(
    lambda more: json.dumps(FACTS | {"checksums": FACTS["checksums"] | more}).encode()
)
DAMAGED_NOTES = st.one_of(
    st.binary(), JSON.map(lambda value: json.dumps(value).encode()), CHANGED_FACTS, CUT_NOTES, FOREIGN_NAMES
)


def made_in(folder: Path, **facts: Any) -> Path:
    for name, content in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / NOTE).write_text(json.dumps(FACTS | facts))
    return folder


def test_a_whole_backup_is_accepted(tmp_path: Path) -> None:
    assert backup.check(made_in(tmp_path)).checksums == FACTS["checksums"]


@given(DAMAGED_NOTES)
def test_a_damaged_note_is_a_typed_error_or_says_the_same(note: bytes) -> None:
    with TemporaryDirectory() as temporary:
        folder = made_in(Path(temporary))
        (folder / NOTE).write_bytes(note)
        with suppress(BackupUnusable, SchemaTooNew, SchemaBeforeRelease):
            assert backup.check(folder).checksums == FACTS["checksums"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / NOTE).write_text("[" * 200_000),
        lambda folder: (folder / NOTE).rename(folder / "note"),
        lambda folder: (folder / DUMP).write_bytes(b"Dump"),
        lambda folder: (folder / FILES / "pki" / "node.key").unlink(),
        lambda folder: (folder / FILES / "pki" / "other.key").write_bytes(b"added"),
        lambda folder: made_in(folder, checksums={}),
    ],
)
def test_a_changed_backup_is_refused(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    made_in(tmp_path)
    damage(tmp_path)
    with pytest.raises(BackupUnusable):
        backup.check(tmp_path)


def test_a_file_beside_those_of_the_backup_does_not_make_it_unusable(tmp_path: Path) -> None:
    (made_in(tmp_path) / "copied-to-tape.txt").write_text("yes")
    backup.check(tmp_path)


@given(DAMAGED_NOTES)
def test_folders_with_a_foreign_or_damaged_note_are_not_deleted_but_named(note: bytes) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("now", "old", "foreign"):
            made_in(folder / name)
        (folder / "foreign" / NOTE).write_bytes(note)
        deleted, unknown = backup.delete_old(folder / "now", "1.10008", 1)
        assert "old" in deleted
        assert unknown == ["foreign"] or "foreign" in deleted or is_of_other_node(note)
        assert (folder / "now" / NOTE).exists()


def is_of_other_node(note: bytes) -> bool:
    return bool(json.loads(note)["node"] != "1.10008")


def test_the_newest_backup_stays_though_others_were_made_by_a_clock_ahead(tmp_path: Path) -> None:
    newest = made_in(tmp_path / "now")
    for name in ("2999", "2998", "1999"):
        made_in(tmp_path / name, made=f"{name}-01-01T00:00:00+00:00")
    assert backup.delete_old(newest, "1.10008", 2) == (["1999", "2998"], [])
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["2999", "now"]


def test_a_restore_leaves_out_the_setting_that_older_servers_refuse_and_ends_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {
        "pg_restore": "printf 'BEGIN;\\nSET transaction_timeout = 0;\\n-- rows\\nCOMMIT;\\n'",
        "psql": f"cat >{tmp_path}/script",
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(backup, "find_programs", lambda: Programs(tmp_path, 18, "18.6"))
    backup._replay("postgresql://semq:secret@db/semq")
    assert (tmp_path / "script").read_text() == "BEGIN;\n-- rows\nCOMMIT;\n"


@pytest.mark.parametrize("failing", ["pg_restore", "psql"])
def test_a_restore_that_fails_says_which_program_said_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    for name in ("pg_restore", "psql"):
        fails = f"echo '{name} is sad' >&2; exit 3" if name == failing else "head -c 1000000 /dev/zero; cat >/dev/null"
        (tmp_path / name).write_text(f"#!/bin/sh\n{fails}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(backup, "find_programs", lambda: Programs(tmp_path, 18, "18.6"))
    with pytest.raises(BackupFailed) as caught:
        backup._replay("postgresql://semq:secret@db/semq")
    assert caught.value.facts["program"] == failing
    assert f"{failing} is sad" in caught.value.facts["fault"]
