"""Sending any folder of files."""

from pathlib import Path

import pytest

from semq.demo.errors import NoDocuments
from semq.demo.files import SourceFile, read_folder
from semq.umx_t.app_key import check_app_key


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_files_come_by_name_with_those_of_subfolders(tmp_path: Path) -> None:
    make(tmp_path, "b.xml", "a.xml", "more/c.xml", ".hidden", ".git/config")
    assert [file.name for file in read_folder(tmp_path, None)] == ["a.xml", "b.xml", "more/c.xml"]


@pytest.mark.parametrize(("count", "names"), [(1, ["a"]), (2, ["a", "b"]), (5, ["a", "b", "a", "b", "a"])])
def test_a_folder_is_repeated_or_cut(tmp_path: Path, count: int, names: list[str]) -> None:
    make(tmp_path, "a", "b")
    assert [file.name for file in read_folder(tmp_path, count)] == names


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    make(tmp_path, ".hidden")
    with pytest.raises(NoDocuments):
        read_folder(tmp_path, None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("order-LW-2041.xml", "order"),
        ("despatch-advice-7.xml", "despatch-advice"),
        ("42.xml", "document"),
        ("x", "document"),
    ],
)
def test_the_kind_of_a_document_is_in_its_name(name: str, kind: str) -> None:
    assert SourceFile(Path(name), name).kind == kind


@pytest.mark.parametrize(
    "name", ["order.xml", "a/b/c.xml", "tab\there.xml", "订单.txt", "n" * 200, "a" * 140 + "-1.xml"]
)
def test_every_name_makes_an_app_key(name: str) -> None:
    check_app_key(SourceFile(Path(name), name).app_key(3))


def test_the_content_type_follows_the_ending() -> None:
    assert SourceFile(Path("a.xml"), "a.xml").content_type in ("application/xml", "text/xml")
    assert SourceFile(Path("a"), "a").content_type == "application/octet-stream"
