"""Outcomes of sent documents."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from semq.app import DocumentEvent, GroupMember
from semq.folders.layout import Layout, read_note, write_note
from semq.folders.outcomes import _find, _is_in_out, _note_outcome
from semq.umx_t.app_key import AppKey

LK0 = "1.10008.1.1.7.1"
GROUP = "1.10008.1.1.7.9"


def event(*key: str) -> DocumentEvent:
    return DocumentEvent("delivered", LK0, "1.56001", AppKey(*key), datetime(2026, 11, 22, tzinfo=UTC))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root")
    layout.make()
    return layout


@pytest.mark.parametrize("key", ["文" * 128, "../../../elsewhere", "../../elsewhere", "/etc/passwd", "..", "a/b"])
def test_a_key_that_is_no_file_name_leads_to_no_file(layout: Layout, key: str) -> None:
    for folder in (layout.out, layout.sent):
        (folder / "56001").mkdir()
    elsewhere = layout.root.parent / "elsewhere"
    elsewhere.write_bytes(b"")
    write_note(elsewhere, {"lk0": LK0})
    assert _find(layout, event("", "", "", key)) is None
    assert not _is_in_out(layout, event("", "", "", key))


def test_a_refused_submission_without_a_target_belongs_to_no_file(layout: Layout) -> None:
    refused = DocumentEvent("failed", LK0, "", AppKey("", "", "", "a.xml"), datetime(2026, 11, 22, tzinfo=UTC))
    assert _find(layout, refused) is None
    assert not _is_in_out(layout, refused)


@pytest.fixture
def file(layout: Layout) -> Path:
    """Return a file that was sent to a group of two members."""
    path = layout.sent / "3.retailers" / "a.xml"
    write_note(path, {"lk0": GROUP})
    path.write_bytes(b"")
    return path


def of_member(number: int, kind: str, outcome: str, reason: str = "") -> DocumentEvent:
    """Return the event that reports the outcome of one member's document."""
    at, member = datetime(2026, 11, 22, tzinfo=UTC), GroupMember(GROUP, "3.retailers", number, 2)
    target, key = f"1.5600{number}", AppKey("", "", "", "a.xml")
    return DocumentEvent(kind, f"{GROUP}{number}", target, key, at, 1, outcome, reason, group=member)


def test_a_file_to_a_group_has_an_outcome_when_all_members_have_outcomes(layout: Layout, file: Path) -> None:
    event = of_member(2, "delivered", "DELIVERED")
    assert _find(layout, event) == file
    _note_outcome(layout, file, event)
    assert "outcome" not in read_note(file)
    assert read_note(file)["members"]["1.56002"]["outcome"] == "DELIVERED"
    _note_outcome(layout, file, event)  # received again after a crash
    assert "outcome" not in read_note(file)
    _note_outcome(layout, file, of_member(1, "delivered", "DELIVERED"))
    assert read_note(file)["outcome"] == "DELIVERED"


def test_a_file_to_a_group_has_the_outcome_of_the_first_member_that_did_not_get_it(layout: Layout, file: Path) -> None:
    _note_outcome(layout, file, of_member(2, "failed", "REJECTED", "second"))
    assert file.exists()
    _note_outcome(layout, file, of_member(1, "failed", "CANCELLED", "first"))
    failed = layout.failed / "3.retailers" / "a.xml"
    assert not file.exists()
    assert [read_note(failed)[name] for name in ("outcome", "reason")] == ["CANCELLED", "first"]


def test_a_corrected_outcome_of_a_member_moves_the_file_back(layout: Layout, file: Path) -> None:
    _note_outcome(layout, file, of_member(1, "delivered", "DELIVERED"))
    _note_outcome(layout, file, of_member(2, "failed", "REJECTED"))
    event = of_member(2, "delivered", "DELIVERED")
    failed = _find(layout, event)
    assert failed is not None
    assert failed.is_relative_to(layout.failed)
    _note_outcome(layout, failed, event)
    assert read_note(file)["outcome"] == "DELIVERED"


def test_a_file_with_a_shortened_name_is_found(layout: Layout) -> None:
    name = "文" * 83
    path = layout.out / "56001" / name
    path.parent.mkdir()
    path.write_bytes(b"")
    moved = layout.move(path, layout.sent, {"lk0": LK0})
    assert moved is not None
    assert _find(layout, event("", "", "", name)) == moved


@pytest.mark.parametrize("name", ["a.xml", "a~1-1-4KN6M.xml"])
@pytest.mark.parametrize("token", ["T1", ""])
def test_a_document_whose_message_has_another_name_is_found_by_its_token(layout: Layout, name: str, token: str) -> None:
    """A document in pieces, and a document that was sealed again, have messages with other names."""
    folder = layout.sent / "56001"
    notes = (("a.xml", {"lk0": GROUP, "token": "T0"}), (name, {"lk0": f"{GROUP}1", "token": "T1"}))
    for file_name, note in notes:
        write_note(folder / file_name, note)
        (folder / file_name).write_bytes(b"")
    failed = replace(event("", "", "", "a.xml"), kind="failed", token=token)
    assert _find(layout, failed) == (folder / name if token else None)
