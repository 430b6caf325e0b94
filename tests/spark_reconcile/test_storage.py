"""Files and folders on a disk and on a simulated object store."""

from pathlib import Path

import pytest
from pyarrow import fs

from spark_reconcile.errors import BadRunRequest, BeingRun
from spark_reconcile.storage import Place


@pytest.fixture(params=["disk", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Place.at(tmp_path)
    system = fs._MockFileSystem()  # behaves like an object store in the tested calls
    return Place(system, "bucket/semq", "s3a")


def test_files_are_written_read_listed_moved_and_removed(place: Place) -> None:
    (place / "a").make()
    (place / "a" / "x.txt").write("发票".encode())
    (place / "a" / "x.txt").write("订单".encode())
    assert (place / "a" / "x.txt").read(100) == "订单".encode()
    assert (place / "a" / "x.txt").size() == 6
    assert [file.name for file in (place / "a").files()] == ["x.txt"]
    assert [folder.name for folder in place.folders()] == ["a"]
    (place / "a" / "x.txt").move(place / "a" / "y.txt")
    assert not (place / "a" / "x.txt").exists()
    (place / "a").remove()
    (place / "a").remove()
    assert place.folders() == []
    assert (place / "a" / "y.txt").size() == -1


def test_of_a_long_file_one_byte_more_than_the_limit_is_read(place: Place) -> None:
    (place / "b").make()
    (place / "b" / "long").write(b"x" * 1000)
    assert len((place / "b" / "long").read(10)) == 11


def test_a_file_whose_writing_fails_does_not_appear(tmp_path: Path) -> None:
    place = Place.at(tmp_path)
    (place / "x").write(b"before")
    with pytest.raises(TypeError), (place / "x").writer() as stream:
        stream.write(None)
    assert (place / "x").read(100) == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_only_one_process_locks_a_folder(tmp_path: Path) -> None:
    with Place.at(tmp_path / "day").lock():
        with pytest.raises(BeingRun), Place.at(tmp_path / "day").lock():
            pass
    with Place.at(tmp_path / "day").lock():
        pass


def test_spark_gets_an_address_of_the_same_place(tmp_path: Path) -> None:
    assert Place.at(tmp_path).uri == f"file://{tmp_path}"
    assert Place.at(f"file://{tmp_path}").path == str(tmp_path)
    assert Place(fs.LocalFileSystem(), "bucket/x", "s3a").uri == "s3a://bucket/x"


def test_a_lock_on_an_object_store_locks_nothing() -> None:
    place = Place(fs._MockFileSystem(), "bucket/semq", "s3a")
    with place.lock(), place.lock():
        pass


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(BadRunRequest):
        Place.at("gopher://hole/x")
