"""Output for people: at most 80 columns."""

import io
import re

from rich.console import Console

from semq.demo.display import Display
from tests.demo.test_tracker import CLEAN, added, good


def console() -> Console:
    return Console(file=io.StringIO(), width=80, color_system=None)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_change_has_a_line_with_its_time_and_offset() -> None:
    where, tracker = console(), good()
    display = Display(where, tracker)
    for document in tracker.documents.values():
        display.changed(document)
        display.read(document.app_key)
    display.say("[brackets] are kept")
    assert text(where).count("SS_ACK2") == text(where).count("read and acknowledged") == 3
    assert "[brackets] are kept" in text(where)
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d ", line) for line in text(where).splitlines())


def test_of_many_documents_only_some_have_lines() -> None:
    where, tracker = console(), good()
    for _ in range(300):
        added(tracker)
    display = Display(where, tracker)
    for document in tracker.documents.values():
        display.changed(document)
        display.read(document.app_key)
    assert len(text(where).splitlines()) == 2 * (303 // 3)


def test_the_title_shows_whether_the_counts_are_good() -> None:
    for left, words in (({}, "Nothing lost"), ({"hub.tb_0031": 1}, "not as they should be")):
        where = console()
        Display(where, good()).counts(good().count(CLEAN | left, 0))
        assert words in text(where)
        assert max(map(len, text(where).splitlines())) <= 80
