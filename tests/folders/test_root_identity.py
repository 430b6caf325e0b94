"""A root is served only as long as it is the folder that was served before."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semq.cli.checkup import machine
from semq.config import load
from semq.folders.errors import RootReplaced
from semq.folders.layout import Layout
from semq.folders.root_identity import MARK, known_file
from tests.mounts import mount, mounted, unmount


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root", "trade", known_file(tmp_path / "data", tmp_path / "root"))
    layout.make()
    return layout


def again(layout: Layout) -> Layout:
    """Return the layout of the same root after a restart of the process."""
    return Layout(layout.root, layout.domain, known_file(layout.root.parent / "data", layout.root))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def replace(layout: Layout) -> Path:
    """Put an empty folder with the folders of a root at its path; return where the root is now."""
    away = layout.root.rename(layout.root.with_name("away"))
    for folder in (layout.out, layout.sent, layout.failed, layout.arrived):
        folder.mkdir(parents=True)
    return away


def _move(layout: Layout) -> object:
    file = layout.out / "56001" / "a.xml"
    file.parent.mkdir()
    file.write_bytes(b"x")
    return layout.move(file, layout.sent, {"token": "T"})


#: Each way in which the program writes into a root
WRITERS: dict[str, Callable[[Layout], object]] = {
    "document": lambda layout: layout.write_document(layout.arrived / "10008" / "a.xml", (b"x",), 1, {}),
    "note": lambda layout: layout.write_note(layout.sent / "10008" / "a.xml", {}),
    "move": _move,
    "remove": lambda layout: layout.remove(layout.sent / "a.xml"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_writes_into_a_folder_that_was_not_locked(layout: Layout, writer: str) -> None:
    away = replace(layout)
    with pytest.raises(OSError, match="not mounted"):
        WRITERS[writer](layout)
    assert [path.name for path in (*layout.sent.rglob("*"), *layout.arrived.rglob("*"))] == []
    layout.root.rename(layout.root.with_name("wrong"))
    away.rename(layout.root)
    WRITERS[writer](layout)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_hidden_by_another_file_system_during_the_write_counts_as_not_written(
    layout: Layout, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, calls = layout.identity.check, iter([lambda: None])

    def check_later() -> None:
        next(calls, check)()  # the first check is before the replacement

    monkeypatch.setattr(layout.identity, "check", check_later)
    replace(layout)
    with pytest.raises(OSError, match="not mounted"):
        WRITERS[writer](layout)


def test_every_function_that_writes_is_tested() -> None:
    """Only the layout writes into a root; its functions are the rows of ``WRITERS``."""
    folder = Path(__file__).parents[2] / "semq" / "folders"
    writing = ("write_safely", "write_blocks_safely", ".unlink(", ".replace(destination", ".rename(", "write_text")
    found = {file.name for file in folder.glob("*.py") if any(word in file.read_text() for word in writing)}
    assert found == {"layout.py", "root_identity.py"}  # the latter writes the marks


def test_a_known_root_is_refused_after_a_restart_until_it_is_there_again(layout: Layout) -> None:
    away = replace(layout)
    with pytest.raises(RootReplaced) as refused:
        again(layout).make()
    assert names(layout.root) == ["failed", "in", "out", "sent"]
    known = Path(str(refused.value.facts["known"]))
    assert json.loads(known.read_text()) == {".": (away / MARK).read_text().strip()}
    layout.root.rename(layout.root.with_name("wrong"))
    with pytest.raises(RootReplaced):  # there is no folder at all
        again(layout).make()
    assert not layout.root.exists()
    away.rename(layout.root)
    again(layout).make()


def test_a_root_that_was_replaced_on_purpose_is_served_when_the_copy_is_deleted(layout: Layout) -> None:
    replace(layout)
    with pytest.raises(RootReplaced) as refused:
        again(layout).make()
    assert "delete the file" in refused.value.advice()
    Path(str(refused.value.facts["known"])).unlink()
    served = again(layout)
    served.make()
    served.write_note(served.sent / "a.xml", {})


@pytest.fixture(params=["", "in", "in/10008"])
def share(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Mount a folder at the root, or within it. Yield the mount point, and how to mount it again."""
    store = tmp_path / "store"
    store.mkdir()
    place = tmp_path / "root" / request.param
    place.mkdir(parents=True)
    arguments = ("--bind", str(store))
    with mounted(place, *arguments):
        yield place, arguments


def test_a_root_or_a_folder_in_it_that_is_not_mounted_gets_no_document(
    tmp_path: Path, share: tuple[Path, tuple[str, ...]]
) -> None:
    place, arguments = share
    layout = Layout(tmp_path / "root", "trade", known_file(tmp_path / "data", tmp_path / "root"))
    layout.make()
    document = layout.arrived / "10008" / "a.xml"
    unmount(place)
    before = names(layout.root)
    with pytest.raises(OSError, match=r"not mounted|No such file"):
        layout.write_document(document, (b"x",), 1, {})
    assert layout.identity.fault() is not None
    with pytest.raises(RootReplaced):
        again(layout).make()
    assert names(layout.root) == before
    mount(place, *arguments)
    served = again(layout)
    served.make()
    served.write_document(document, (b"x",), 1, {})
    assert document.read_bytes() == b"x"


def test_doctor_names_a_root_that_is_not_the_one_that_was_served(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        f'[node]\nkind = "local"\nid = "10008"\ndata_dir = "{tmp_path}/data"\n[hub]\nurl = "amqps://127.0.0.1"\n'
        '[[folders]]\npath = "root"\n'
    )
    settings = load(file, {})
    layout = Layout(settings.folders[0].path, "", known_file(settings.data_dir, settings.folders[0].path))
    layout.make()
    assert not [finding for finding in machine.check(settings) if finding.check == "folder"]
    replace(layout)
    [finding] = [finding for finding in machine.check(settings) if finding.check == "folder"]
    assert "SEMQ-1346" in finding.detail
    assert "Mount the file system" in finding.advice
