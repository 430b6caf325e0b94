"""What people see fits 80 columns, on a terminal and elsewhere."""

import io

from rich.console import Console

from semq.demo.audience import LiveTable, PlainLines, print_verdict, seat, summary
from semq.demo.board import Board
from semq.demo.verdict import count
from tests.demo.test_verdict import CLEAN, good


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_console_has_its_audience() -> None:
    live = seat(console(terminal=True), Board())
    assert isinstance(live, LiveTable)
    live.close()
    assert isinstance(seat(console(terminal=False), Board()), PlainLines)


def test_plain_lines_tell_of_each_document() -> None:
    where, board = console(terminal=False), good()
    lines = PlainLines(where, board)
    lines.show(board.items)
    lines.received(board.items[0])
    lines.say("[brackets] are kept")
    lines.close()
    assert text(where).count("SS_ACK2") == 3
    assert "read and acknowledged" in text(where)
    assert "[brackets] are kept" in text(where)


def test_many_documents_are_summed_up() -> None:
    where, board = console(terminal=False), good()
    board.items *= 100
    PlainLines(where, board).show(board.items)
    assert text(where).strip().endswith(summary(board))
    assert len(text(where).splitlines()) == 1


def test_the_live_table_fits() -> None:
    where, board = console(terminal=True), good()
    board.items[0].paper.path.with_name("n" * 100)
    live = LiveTable(where, board)
    live.show(board.items)
    live.received(board.items[0])
    live.say("a line above the table")
    live.close()
    assert "a line above the table" in text(where)
    assert "SS_ACK2" in text(where)


def test_the_verdict_says_whether_it_is_good() -> None:
    for left, words in (({}, "Nothing lost"), ({"hub.tb_0031": 1}, "Not as it should be")):
        where = console(terminal=False)
        print_verdict(where, count(good(), CLEAN | left, 0))
        assert words in text(where)
        assert max(map(len, text(where).splitlines())) <= 80
