"""Output for people."""

import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from semq.demo.configuration import SENDER
from semq.demo.counts import Counts
from semq.demo.options import SAMPLES, Options
from semq.demo.reconciliation import Reconciliation
from semq.demo.tracker import STATES, DocumentTracker, TrackedDocument
from semq.installation.configuration import HUB, NodePlace
from semq.moments import time_of_day

PAUSE_S = 1.0  # between two lines of counts
LINES_MAX = 120  # documents up to which each change has a line
HINTS = """
What to try next
  ./run demo --stay                          leave the three nodes running, to use them from another terminal
  ./run demo --count 500                     more documents; kill -9 any of the three processes meanwhile
  ./run demo --documents FOLDER              your own files
  ./run demo --inject                        plant some defects, which the reconciliation must find
  ./run node platform --config examples/config/platform.toml    start three nodes by hand: README.md
"""
HINTS_STAYING = """
What to try next, in another terminal
  ./run semq msg send --node {sender} --to 56001 --type order --file README.md --wait delivered
  ./run semq msg list --node {sender}
  ./run semq node status --node {hub}
"""


def stamp() -> str:
    """Return the time of day with its offset from UTC, for a line."""
    return time_of_day(datetime.now().astimezone(), "milliseconds")


class Display:
    """The progress of the documents: a line for each change, or a count now and then if there are many documents."""

    def __init__(self, console: Console, tracker: DocumentTracker) -> None:
        self._console = console
        self._tracker = tracker
        self._counted_at = 0.0

    def say(self, text: str, style: str = "") -> None:
        """Print a line with the time."""
        self._console.print(Text.assemble((stamp(), "dim"), " ", (text, style)), soft_wrap=True)

    def changed(self, document: TrackedDocument) -> None:
        """Show a new state."""
        status, description, colour = STATES[document.state]
        took = f" after {document.took_ms:.1f} ms" if document.state == "delivered" else ""
        reason = f": {document.reason}" if document.reason else ""
        if len(self._tracker.documents) <= LINES_MAX:
            words = f"{status or document.state}  {description}{took}{reason}"
            self.say(f"{document.number:4} {document.file.name}  {words}", colour)
        elif time.monotonic() - self._counted_at > PAUSE_S or all(one.is_final for one in self._tracker.documents):
            self._counted_at = time.monotonic()
            self.say(summary(self._tracker))

    def read(self, document: TrackedDocument) -> None:
        """Show that the application of 56001 has acknowledged a document."""
        if len(self._tracker.documents) <= LINES_MAX:
            self.say(f"{document.number:4} {document.file.name}  read and acknowledged by the application of 56001")


def summary(tracker: DocumentTracker) -> str:
    """Return the number of documents in each state."""
    states = Counter(document.state for document in tracker.documents if document.state != "new")
    read = sum(document.was_received for document in tracker.documents)
    counts = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    return f"{states.total()} of {len(tracker.documents)} documents: {counts or 'none sent yet'}; {read} read"


def print_introduction(console: Console, options: Options, folder: Path) -> None:
    """Print what is sent and where the files are."""
    source = "the sample documents of examples/documents" if options.documents == SAMPLES else str(options.documents)
    fate = "kept" if options.keep else "removed at the end except for the report; --keep keeps it"
    console.print(f"SEMQ demo: 10008 sends {source} to 56001 through a hub.", markup=False)
    console.print(f"All files are in {folder} ({fate}).", markup=False, soft_wrap=True)


def print_counts(console: Console, counts: Counts) -> None:
    """Print the result."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(justify="right")
    drawn.add_column()
    left = ", ".join(f"{name} {rows}" for name, rows in counts.left_in_each_queue.items())
    for value, meaning in (
        (counts.accepted, "accepted: committed at 10008 and confirmed to its application"),
        (counts.forwarded, "forwarded by the hub at once, 56001 being online"),
        (counts.stored, "stored by the hub until 56001 came back"),
        (counts.delivered, "delivered: 10008 knows that 56001 has them (SS_ACK2)"),
        (counts.received, "received and acknowledged by the application of 56001"),
        (counts.redelivered, "of them delivered again after a crash, marked as redelivered"),
        (counts.duplicated, "duplicated"),
        (counts.lost, "lost"),
        (counts.digest_mismatches, "with different bytes at the receiver (SHA-256 compared)"),
        (counts.left_in_queues, f"left in the queues ({left})"),
        (f"{counts.p50_ms:g} ms", "from submit to SS_ACK2 while online, median"),
        (f"{counts.p99_ms:g} ms", "the same, 99th percentile"),
    ):
        drawn.add_row(str(value), meaning)
    good = "Nothing lost, nothing duplicated, every queue empty."
    title = good if counts.is_good else "Some numbers are not as they should be."
    console.print(Panel(drawn, title=title, border_style="green" if counts.is_good else "red", expand=False))


def print_reconciliation(console: Console, found: Reconciliation) -> None:
    """Print the result of the reconciliation and the path of its report."""
    if not found.report:
        console.print(f"Reconciliation: {found.outcome}. {found.said}", markup=False, soft_wrap=True)
        return
    verdicts = ", ".join(f"{number} {name}" for name, number in found.verdicts.items())
    console.print(f"Reconciliation: {found.messages} documents: {verdicts}.", markup=False, soft_wrap=True)
    if found.planted:
        colour = "green" if found.is_good else "red"
        console.print(f"{found.found} of {len(found.planted)} planted defects were found.", style=colour)
    console.print(f"Report (kept): {found.report}", markup=False, soft_wrap=True)


def print_hints(console: Console, options: Options, places: Mapping[str, NodePlace]) -> None:
    """Print commands to try next."""
    text = HINTS_STAYING.format(sender=places[SENDER].url, hub=places[HUB].url) if options.stay else HINTS
    console.print(text, markup=False, soft_wrap=True, end="")
