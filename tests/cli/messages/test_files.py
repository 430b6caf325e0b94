"""Documents in files: files that may be sent, and names of received documents."""

import os
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.app import AppKey, Document
from semq.cli.errors import EmptyDocument, NoFileNamed, UnusableFile
from semq.cli.messages.files import file_name, read_bodies, write_body
from semq.foreign_text import shown
from semq.store.files import NAME_BYTES_MAX

LK0 = "1.10008.1.1.534a226699edc7f7.1099511627777"
KEYS = st.text(st.characters(codec=None, exclude_categories=()), max_size=600)


def document(key: str, payload: bytes = b"x") -> Document:
    return Document(LK0, "1.10008", "1.56001", AppKey("", "", "", key), payload, "")


@given(KEYS)
def test_every_key_becomes_a_valid_file_name(key: str) -> None:
    name = file_name(LK0, key)
    assert len(os.fsencode(name)) <= NAME_BYTES_MAX
    assert name.startswith(LK0)
    assert "/" not in name
    assert shown(name) == name
    assert file_name(LK0, key) == name


@given(KEYS, KEYS)
def test_different_documents_have_different_names(key: str, other: str) -> None:
    assert file_name(LK0, key) != file_name(LK0[:-1] + "8", other)


@pytest.mark.parametrize(
    ("key", "ending"),
    [
        ("order.xml", "-order.xml"),
        ("a/b/order.xml", "-order.xml"),
        ("..\\..\\order.xml", "-order.xml"),
        ("../..", ""),
        ("", ""),
        ("CON", "-CON"),
        ("订单.xml", "-订单.xml"),
    ],
)
def test_the_last_part_of_a_key_is_kept(key: str, ending: str) -> None:
    name = file_name(LK0, key)
    assert name.startswith(LK0)
    assert name.endswith(ending)
    assert ".." not in name


def test_a_long_name_keeps_its_beginning_and_its_suffix(tmp_path: Path) -> None:
    long = "订单" * 80 + ".xml"  # 484 bytes
    path = write_body(tmp_path, document(long, b"one"))
    assert path.read_bytes() == b"one"
    assert path.name.startswith(f"{LK0}-订单")
    assert path.suffix == ".xml"
    assert file_name(LK0, long) != file_name(LK0, "订单" * 81 + ".xml")
    assert write_body(tmp_path, document(long, b"one")) == path  # a repetition replaces the file
    assert [file.name for file in tmp_path.iterdir()] == [path.name]  # and leaves no other file


def test_a_document_is_written_although_a_folder_has_its_file_name(tmp_path: Path) -> None:
    (tmp_path / file_name(LK0, "order.xml")).mkdir()
    path = write_body(tmp_path, document("order.xml"))
    assert path.read_bytes() == b"x"


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnusableFile):
        write_body(tmp_path / "file", document("a"))


def test_an_empty_document_needs_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    full.write_bytes(b"x")
    empty.write_bytes(b"")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO()))
    with pytest.raises(NoFileNamed):
        list(read_bodies(None, allow_empty=False))
    with pytest.raises(EmptyDocument):
        list(read_bodies(["-"], allow_empty=False))
    with pytest.raises(EmptyDocument):
        next(read_bodies([str(full), str(empty)], allow_empty=False))  # before any document is sent
    named = [str(full), str(empty), "-"]
    assert list(read_bodies(named, allow_empty=True)) == list(zip(named, (b"x", b"", b""), strict=True))


def test_a_terminal_is_not_read_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = TextIOWrapper(BytesIO(b"typed"))
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(NoFileNamed):
        list(read_bodies(None, allow_empty=True))
    assert list(read_bodies(["-"], allow_empty=False)) == [("-", b"typed")]
