"""Output for people: at most 80 columns."""

import io
import re

from rich.console import Console

from semq.demo.counts import count
from semq.demo.display import Display, print_counts, stamp, summary
from tests.demo.test_counts import CLEAN, good


def console() -> Console:
    return Console(file=io.StringIO(), width=80, color_system=None)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_times_carry_their_offset() -> None:
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", stamp())


def test_each_change_has_a_line() -> None:
    where, tracker = console(), good()
    display = Display(where, tracker)
    for document in tracker.documents:
        display.changed(document)
    display.read(tracker.documents[0])
    display.say("[brackets] are kept")
    assert text(where).count("SS_ACK2") == 3
    assert "read and acknowledged" in text(where)
    assert "[brackets] are kept" in text(where)


def test_many_documents_are_counted() -> None:
    where, tracker = console(), good()
    tracker.documents *= 100
    display = Display(where, tracker)
    display.changed(tracker.documents[0])
    display.read(tracker.documents[0])
    assert text(where).strip().endswith(summary(tracker))
    assert len(text(where).splitlines()) == 1


def test_the_title_says_whether_the_counts_are_good() -> None:
    for left, words in (({}, "Nothing lost"), ({"hub.tb_0031": 1}, "not as they should be")):
        where = console()
        print_counts(where, count(good(), CLEAN | left, 0))
        assert words in text(where)
        assert max(map(len, text(where).splitlines())) <= 80
