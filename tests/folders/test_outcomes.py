"""Outcomes of documents sent from folders, and of documents of other applications."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from semq.app import DocumentEvent
from semq.folders.layout import Layout, write_note
from semq.folders.outcomes import _find, _is_under_way
from semq.umx_t.app_key import AppKey

LK0 = "1.10008:1:1:7:1"


def event(*key: str) -> DocumentEvent:
    return DocumentEvent("delivered", LK0, "1.56001", AppKey(*key), datetime(2026, 11, 22, tzinfo=UTC))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "door")
    made.make()
    return made


@pytest.mark.parametrize("key", ["文" * 128, "../../../elsewhere", "../../elsewhere", "/etc/passwd", "..", "a/b"])
def test_a_key_of_another_application_is_no_path(layout: Layout, key: str) -> None:
    for folder in (layout.out, layout.sent):
        (folder / "56001").mkdir()
    elsewhere = layout.root.parent / "elsewhere"
    elsewhere.write_bytes(b"")
    write_note(elsewhere, {"lk0": LK0})
    assert _find(layout, event("", "", "", key)) is None
    assert not _is_under_way(layout, event("", "", "", key))


def test_a_refused_submission_without_a_target_is_no_file(layout: Layout) -> None:
    refused = DocumentEvent("failed", LK0, "", AppKey("", "", "", "a.xml"), datetime(2026, 11, 22, tzinfo=UTC))
    assert _find(layout, refused) is None
    assert not _is_under_way(layout, refused)


def test_a_file_with_a_shortened_name_is_found(layout: Layout) -> None:
    name = "文" * 83
    path = layout.out / "56001" / name
    path.parent.mkdir()
    path.write_bytes(b"")
    goal = layout.move(path, layout.sent, {"lk0": LK0})
    assert goal is not None
    assert _find(layout, event("", "", "", name)) == goal
