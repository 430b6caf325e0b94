"""What people see of the demo: a live table on a terminal, plain lines elsewhere. Knows how to show, not what
happens.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from semq.demo.board import STATES, Board, Item
from semq.demo.reckoning import Reckoning
from semq.demo.verdict import Verdict

ROWS = 16  # of the live table: what moved last
PAUSE_S = 1.0  # between two lines of counts
LINES_MAX = 120  # documents up to which plain lines tell of each change
COLOURS = {
    "accepted": "yellow",
    "sent": "yellow",
    "forwarded": "cyan",
    "stored": "magenta",
    "delivered": "green",
    "failed": "red",
    "refused": "red",
}


class Audience(Protocol):
    """Somebody who watches."""

    def say(self, text: str) -> None:
        """One line for people, with the time."""

    def show(self, items: Sequence[Item]) -> None:
        """These documents have changed."""

    def received(self, item: Item) -> None:
        """The application of 56001 has this one."""

    def close(self) -> None:
        """The curtain: nothing moves any more."""


def seat(console: Console, board: Board) -> Audience:
    """The audience that fits a console."""
    return LiveTable(console, board) if console.is_terminal else PlainLines(console, board)


def stamp() -> str:
    """The time of day for a line."""
    return datetime.now().astimezone().strftime("%H:%M:%S.%f")[:-3]


class PlainLines:
    """One line per change, or a count now and then when there are many documents."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._last = 0.0

    def say(self, text: str) -> None:
        self._console.print(f"{stamp()} {text}", markup=False, highlight=False, soft_wrap=True)

    def show(self, items: Sequence[Item]) -> None:
        if len(self._board.items) <= LINES_MAX:
            for item in items:
                status, words = STATES[item.state]
                took = f" after {item.took_ms:.1f} ms" if item.state == "delivered" else ""
                reason = f": {item.reason}" if item.reason else ""
                self.say(f"{item.number:4} {item.paper.name}  {status or item.state}  {words}{took}{reason}")
        elif time.monotonic() - self._last > PAUSE_S or not self._board.open():
            self._last = time.monotonic()
            self.say(summary(self._board))

    def received(self, item: Item) -> None:
        if len(self._board.items) <= LINES_MAX:
            self.say(f"{item.number:4} {item.paper.name}  read and acknowledged by the application of 56001")

    def close(self) -> None:
        """Nothing moves here."""


class LiveTable:
    """A table that lives below the lines."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._live = Live(self._picture(), console=console, refresh_per_second=12, transient=False)
        self._live.start()

    def say(self, text: str) -> None:
        self._console.print(Text.assemble((stamp(), "dim"), " ", text))

    def show(self, items: Sequence[Item]) -> None:
        self._live.update(self._picture())

    def received(self, item: Item) -> None:
        self._live.update(self._picture())

    def close(self) -> None:
        self._live.update(self._picture(), refresh=True)
        self._live.stop()

    def _picture(self) -> Group:
        moved = [item for item in self._board.items if item.state != "new"]
        last = sorted(sorted(moved, key=lambda item: item.heard)[-ROWS:], key=lambda item: item.number)
        return Group(Text(summary(self._board), style="bold"), table(last))


def table(items: Sequence[Item]) -> Table:
    """Documents and their states, 80 columns wide."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column("#", justify="right", width=5)
    drawn.add_column("document", width=24, no_wrap=True, overflow="ellipsis")
    drawn.add_column("status", width=10)
    drawn.add_column("in words", width=22, no_wrap=True)
    drawn.add_column("ms", justify="right", width=7)
    drawn.add_column("read", width=4)
    for item in items:
        status, words = STATES[item.state]
        took = f"{item.took_ms:.1f}" if item.state == "delivered" else ""
        read = "yes" if item.was_received else ""
        drawn.add_row(str(item.number), item.paper.name, status, words, took, read, style=COLOURS.get(item.state))
    return drawn


def summary(board: Board) -> str:
    """How many documents are in which state."""
    states = Counter(item.state for item in board.items if item.state != "new")
    read = sum(item.was_received for item in board.items)
    told = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    return f"{sum(states.values())} of {len(board.items)} documents: {told or 'none sent yet'}; {read} read"


def print_verdict(console: Console, verdict: Verdict) -> None:
    """The numbers for people."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(justify="right")
    drawn.add_column()
    left = ", ".join(f"{name} {count}" for name, count in verdict.left_in_each_queue.items())
    rows = (
        (verdict.accepted, "accepted at 10008 (committed, promised to its application)"),
        (verdict.forwarded, "forwarded by the hub at once, 56001 being online"),
        (verdict.stored, "stored by the hub until 56001 came back"),
        (verdict.delivered, "delivered: 10008 knows that 56001 holds them (SS_ACK2)"),
        (verdict.received, "received by the application of 56001, each acknowledged by it"),
        (verdict.redelivered, "of them given once more after a crash, marked as redelivered"),
        (verdict.duplicated, "duplicated"),
        (verdict.lost, "lost"),
        (verdict.digest_mismatches, "with other bytes at the other end (SHA-256 compared at both)"),
        (verdict.left_in_queues, f"left in the queues ({left})"),
        (f"{verdict.p50_ms:g} ms", "from submit to SS_ACK2 while online, median"),
        (f"{verdict.p99_ms:g} ms", "the same, 99 of 100"),
    )
    for value, words in rows:
        drawn.add_row(str(value), words)
    good = "Nothing lost, nothing duplicated, every queue clean."
    title = good if verdict.is_good else "Not as it should be: see the numbers."
    console.print(Panel(drawn, title=title, border_style="green" if verdict.is_good else "red", expand=False))


def print_reckoning(console: Console, reckoning: Reckoning) -> None:
    """What the reconciliation says, and where its report lies."""
    if not reckoning.report:
        console.print(f"Reconciliation: {reckoning.outcome}. {reckoning.said}", markup=False, soft_wrap=True)
        return
    counts = ", ".join(f"{count} {name}" for name, count in reckoning.verdicts.items())
    console.print(f"Reconciliation: {reckoning.messages} documents: {counts}.", markup=False, soft_wrap=True)
    if reckoning.planted:
        found, planted = max(reckoning.found, 0), len(reckoning.planted)
        console.print(
            f"{found} of {planted} planted defects were found.", style="green" if reckoning.is_good else "red"
        )
    console.print(f"Report (kept): {reckoning.report}", markup=False, soft_wrap=True)
