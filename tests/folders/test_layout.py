"""Names and paths in the folders of a root."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

import semq.folders.layout
from semq.folders.errors import BadPlace
from semq.folders.layout import (
    NAME_BYTES_MAX,
    NOTE,
    Layout,
    file_name_for,
    free_path,
    marked,
    note_of,
    read_note,
)
from semq.umx_t.app_key import AppKey
from tests.folders.long_paths import layout_with_long_path

DAY = "2026-11-22"  # of the last modification of the files
MODIFIED = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root", "trade")
    layout.make()
    return layout


def put(layout: Layout, *parts: str, body: bytes = b"x") -> Path:
    path = layout.out.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    os.utime(path, (MODIFIED, MODIFIED))
    return path


@pytest.mark.parametrize(
    ("relative_path", "target", "app_key"),
    [
        ("56001/a.xml", "56001", AppKey("trade", "", "", "a.xml")),
        ("56001/order/a.xml", "56001", AppKey("trade", "order", "", "a.xml")),
        ("1.56001@buyer/order/standard/a.xml", "1.56001/buyer", AppKey("trade", "order", "standard", "a.xml")),
    ],
)
def test_folders_name_target_type_and_subtype(layout: Layout, relative_path: str, target: str, app_key: AppKey) -> None:
    path = put(layout, *relative_path.split("/"))
    assert layout.route(path) == (target, app_key)
    assert layout.out / layout.path_of(target, app_key) == path


@pytest.mark.parametrize("relative_path", ["a.xml", "56001/order/standard/deeper/a.xml"])
def test_a_file_outside_of_the_folders_of_a_target_has_no_route(layout: Layout, relative_path: str) -> None:
    with pytest.raises(BadPlace):
        layout.route(put(layout, *relative_path.split("/")))


def test_only_finished_regular_files_are_offered_the_oldest_first_and_others_are_named(
    layout: Layout, tmp_path: Path
) -> None:
    newer, older = put(layout, "56001", "new.xml"), put(layout, "56001", "order", "old.xml")
    os.utime(older, (1, 1))
    for name in (".hidden", f"d.xml{NOTE}"):
        put(layout, "56001", name)
    unfinished = ["a.part", "a.PART", "big.xml.filepart", "b.tmp", "b.partial", "c~", "x.crdownload"]
    for name in unfinished:
        put(layout, "56001", name)
    put(layout, "56001", "empty.xml", body=b"")
    put(layout, "unfinished.part", "a.xml")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    (layout.out / "56001" / "link").symlink_to(outside / "secret")
    (layout.out / "linked").symlink_to(outside)
    os.mkfifo(layout.out / "56001" / "pipe")
    assert [file.path for file in layout.offered(100)] == [older, newer]
    reasons = {str(Path(path).relative_to(layout.out)): file.reason for path, file in layout.ignored.items()}
    names = [*(f"56001/{name}" for name in unfinished), "unfinished.part"]
    assert reasons == dict.fromkeys(names, "unfinished, by the end of its name") | {
        "56001/empty.xml": "empty", "56001/link": "a symbolic link", "linked": "a symbolic link",
        "56001/pipe": "not a regular file",
    }  # fmt: skip
    assert len(layout.offered(1)) == 1


def test_a_folder_that_can_be_listed_but_not_entered_is_logged_once_and_does_not_hide_others(tmp_path: Path) -> None:
    layout, folder = layout_with_long_path(tmp_path)
    file = put(layout, "56001", "good.xml")
    with capture_logs() as lines:
        for _ in range(2):
            assert [offered.path for offered in layout.offered(100)] == [file]
        layout.offered(0)  # ends before the folder is reached
        layout.offered(100)
    assert [(line["event"], line["folder"]) for line in lines] == [("folder_not_read", str(folder))]
    rmtree(folder)
    layout.offered(100)
    assert not layout.unread


def test_a_moved_file_gets_a_name_that_no_other_file_has(layout: Layout) -> None:
    for number in range(3):
        path = put(layout, "56001", "order", "a.xml", body=str(number).encode())
        layout.move(path, layout.sent, {"lk0": str(number)}, "1-AAAA")
    names = ["a.xml", "a~1-AAAA.xml", "a~1-AAAA~2.xml"]
    folder = layout.sent / DAY / "56001" / "order"
    assert [(folder / name).read_bytes() for name in names] == [b"0", b"1", b"2"]
    assert [read_note(folder / name)["lk0"] for name in names] == ["0", "1", "2"]


def at_first_call(monkeypatch: pytest.MonkeyPatch, name: str, action: Callable[[], object]) -> None:
    """Run ``action``, as another thread could, just before the first call of a function of the layout."""
    original, calls = getattr(semq.folders.layout, name), count()

    def after_action(*arguments: Any) -> None:
        if not next(calls):
            action()
        original(*arguments)

    monkeypatch.setattr(semq.folders.layout, name, after_action)


def test_files_of_one_name_that_are_moved_at_the_same_time_do_not_replace_each_other(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, refused = put(layout, "56001", "a.xml", body=b"sent"), put(layout, "56001", "b.xml", body=b"refused")
    not_delivered = layout.move(sent, layout.sent, {"lk0": "1"})
    assert not_delivered is not None
    refused = refused.rename(sent)
    at_first_call(monkeypatch, "write_safely", lambda: layout.move(refused, layout.failed, {"code": "SEMQ-1"}))
    layout.move(not_delivered, layout.failed, {"lk0": "1", "outcome": "REJECTED"}, "1-AAAA")
    folder = layout.failed / "56001"
    assert [(folder / name).read_bytes() for name in ("a.xml", "a~2.xml")] == [b"sent", b"refused"]
    assert [list(read_note(folder / name)) for name in ("a.xml", "a~2.xml")] == [["lk0", "outcome"], ["code"]]


def test_a_file_that_leaves_a_folder_does_not_take_the_note_of_the_next_file_of_its_name(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = layout.move(put(layout, "56001", "a.xml", body=b"first"), layout.sent, {"lk0": "1"}, "1-AAAA")
    assert first is not None
    second = put(layout, "56001", "a.xml", body=b"second")
    at_first_call(monkeypatch, "sync_folder", lambda: layout.move(second, layout.sent, {"lk0": "2"}, "1-BBBB"))
    layout.move(first, layout.failed, {"lk0": "1", "outcome": "REJECTED"}, "1-AAAA")
    [moved] = layout.sent.rglob("*.xml")
    assert moved.read_bytes() == b"second"
    assert read_note(moved) == {"lk0": "2"}
    assert not read_note(first)


def test_the_folders_of_a_moved_file_outlast_a_crash(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[Path] = set()

    def fsync(handle: int) -> None:
        synced.add(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    path = layout.move(put(layout, "56001", "order", "a.xml"), layout.sent, {"lk0": "1"})
    assert path is not None
    assert {layout.sent, layout.sent / DAY, layout.sent / DAY / "56001", path.parent} < synced


def test_an_invalid_note_counts_as_empty(layout: Layout) -> None:
    path = put(layout, "56001", "a.xml")
    assert read_note(path) == {}
    for text in ("{", "[1]"):
        path.with_name(path.name + NOTE).write_text(text)
        assert read_note(path) == {}
    layout.write_note(path, {"of": "\ud800", "at": Path("x")})
    assert read_note(path)["of"]


def test_a_note_of_which_the_system_tells_nothing_does_not_count_as_empty(layout: Layout) -> None:
    path = put(layout, "56001", "a.xml")
    note_of(path).symlink_to(note_of(path))
    with pytest.raises(OSError, match="symbolic links"):
        read_note(path)


def test_a_path_of_which_the_system_tells_nothing_does_not_count_as_free(layout: Layout) -> None:
    folder = layout.sent / "56001"
    folder.symlink_to(folder)
    with pytest.raises(OSError, match="symbolic links"):
        free_path(folder / "a.xml")


def test_numbers_distinguish_files_without_a_mark(layout: Layout) -> None:
    path = put(layout, "56001", "a.xml")
    assert free_path(path) == marked(path, "2")


@given(st.text(max_size=400))
def test_every_text_has_a_file_name(text: str) -> None:
    name = file_name_for(text)
    assert len(os.fsencode(name)) <= NAME_BYTES_MAX
    assert not set(name) & set('/\\\x00\n:*?"<>|')
    assert name not in ("", ".", "..") or not text
    assert not name.startswith(".")
    assert file_name_for(text) == name


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_different_texts_have_different_names(first: str, second: str) -> None:
    assert first == second or file_name_for(first) != file_name_for(second)
