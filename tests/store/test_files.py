"""A new file has its mode, a new folder is open to its owner only, and a failed write leaves the old content."""

import os
from collections.abc import Iterator
from errno import EACCES, ENOSPC
from pathlib import Path

import pytest

from semq.errors import unusable_path_of
from semq.store.files import make_folder, write_blocks_safely, write_safely


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_has_its_mode_despite_the_umask_and_a_file_left_by_a_crash(tmp_path: Path, mode: int) -> None:
    before = os.umask(0)
    try:
        (tmp_path / ".file.new").write_text("left by a crash, readable for all")
        write_safely(tmp_path / "file", b"one", mode)
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode
    assert (tmp_path / "file").read_bytes() == b"one"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_missing_folder_is_created_for_its_owner_only(tmp_path: Path) -> None:
    write_safely(tmp_path / "new" / "file", b"one")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_new_folders_outlast_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    write_safely(tmp_path / "a" / "b" / "file", b"one")
    assert {folder for folder in synced if folder.is_dir()} == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    synced.clear()
    write_safely(tmp_path / "a" / "b" / "file", b"two")
    assert [folder for folder in synced if folder.is_dir()] == [tmp_path / "a" / "b"]


def test_a_folder_is_made_in_one_that_may_be_written_but_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test replaces the answer of the system, because tests may run as root, whom missing rights do not stop."""

    def refused(path: Path, _: int) -> int:
        raise PermissionError(EACCES, os.strerror(EACCES), str(path))

    monkeypatch.setattr(os, "open", refused)
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_safely(tmp_path / "file", b"old")

    def full(_: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_safely(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_an_error_without_room_names_the_file_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_safely(tmp_path / "file", b"new")
    unusable = unusable_path_of(caught.value)
    assert unusable is not None
    assert str(tmp_path / "file") in unusable.text
    assert "Free space" in unusable.remedy


def test_nothing_remains_of_content_that_cannot_be_written(tmp_path: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"some"
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    with pytest.raises(OSError, match="No space"):
        write_blocks_safely(tmp_path / "file", blocks())
    assert list(tmp_path.iterdir()) == []


def test_content_for_which_there_is_no_room_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left on device: 1073741824\.0 GiB needed"):
        write_blocks_safely(tmp_path / "file", iter(()), size=1 << 60)
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_have_the_longest_name(tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        write_safely(tmp_path / ("n" * 255), content)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"two"]
