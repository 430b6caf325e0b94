"""The lines of the demo: at most 80 columns, and not for all documents if there are many."""

import io
import re

from rich.console import Console

from semq.demo.display import Display
from tests.demo.test_tracker import CLEAN, added, good


def memory_console() -> Console:
    return Console(file=io.StringIO(), width=80, color_system=None)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_change_has_a_line_with_its_time_and_offset() -> None:
    console, tracker = memory_console(), good()
    display = Display(console, tracker)
    for document in tracker.documents.values():
        display.show_state(document)
        display.show_read(document.app_key)
    display.print_with_time("[brackets] are kept")
    assert text(console).count("SS_ACK2") == text(console).count("read and acknowledged") == 3
    assert "[brackets] are kept" in text(console)
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d ", line) for line in text(console).splitlines())


def test_above_the_limit_only_some_documents_have_lines() -> None:
    console, tracker = memory_console(), good()
    for _ in range(300):
        added(tracker)
    display = Display(console, tracker)
    for document in tracker.documents.values():
        display.show_state(document)
        display.show_read(document.app_key)
    assert len(text(console).splitlines()) == 2 * (303 // 3)


def test_the_title_shows_whether_the_counts_are_good() -> None:
    for left, words in (({}, "Nothing lost"), ({"hub.tb_0031": 1}, "Some counts are wrong")):
        console = memory_console()
        Display(console, good()).counts(good().count(CLEAN | left, 0))
        assert words in text(console)
        assert max(map(len, text(console).splitlines())) <= 80
