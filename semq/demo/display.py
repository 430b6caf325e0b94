"""The lines that the demo prints: states of documents, counts, and the result of the reconciliation."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from semq.app import AppKey
from semq.demo.reconciliation import Reconciliation
from semq.demo.tracker import STATES, DocumentTracker, TrackedDocument
from semq.moments import time_of_day

SAMPLES = Path(__file__).with_name("documents")
# From this number of documents on, only every second document has lines; from twice the number, every third.
SHOWN_MAX = 120
# Count in the result of `tracker` | its description in the box
MEANINGS = {
    "accepted": "accepted: committed at 10008 and confirmed to its application",
    "forwarded": "forwarded at once, without being stored on the way",
    "stored": "stored on the way until the receiver came back",
    "delivered": "delivered: 10008 knows that the receiver has them (SS_ACK2)",
    "received": "received and acknowledged by the receiver's application",
    "redelivered": "deliveries repeated after a crash, marked as redelivered",
    "duplicated": "duplicated",
    "lost": "lost",
    "digest_mismatches": "with different bytes at the receiver (SHA-256 compared)",
    "left_in_queues": "left in the queues ({left})",
    "median_ms": "from submit to SS_ACK2 while online, median",
    "takeover_s": "from the kill of an instance until the standby served its store",
}
HINTS = """
What to try next
  {demo} --stay          leave the nodes running, to use them from another terminal
  {demo} --count 500     more documents; kill -9 any process of a node meanwhile
  {demo} --inject        plant defects, which the reconciliation must find
  {demo} --cluster       a hub of two instances, of which one is killed, and a standby
"""
HINTS_STAYING = """
What to try next, in another terminal
  {semq} msg send --node {sender.url} --to 56001 --type order --file FILE --wait delivered
  {semq} msg list --node {sender.url}
  {semq} node status --node {hub.url}
"""


class Display:
    """The printer of the demo."""

    def __init__(self, console: Console, tracker: DocumentTracker) -> None:
        self._console = console
        self._tracker = tracker

    def print_line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)

    def print_with_time(self, text: str, style: str = "") -> None:
        """Print a line with the time and its offset from UTC."""
        now = time_of_day(datetime.now().astimezone(), "milliseconds")
        self._console.print(Text.assemble((now, "dim"), " ", (text, style)), soft_wrap=True)

    def show_state(self, document: TrackedDocument) -> None:
        status, description, colour = STATES[document.state]
        took = f" after {document.took_ms:.1f} ms" if document.state == "delivered" else ""
        reason = f": {document.reason}" if document.reason else ""
        self._print_about(document, f"{status or document.state}  {description}{took}{reason}", colour)

    def show_read(self, app_key: AppKey) -> None:
        """Print that the receiver's application has acknowledged the document with this AppKey."""
        document = self._tracker.documents.get(app_key)
        if document is not None:
            self._print_about(document, f"read and acknowledged by the application of {document.target}")

    def _print_about(self, document: TrackedDocument, text: str, style: str = "") -> None:
        step = len(self._tracker.documents) // SHOWN_MAX + 1
        if document.number % step == 0:
            self.print_with_time(f"{document.number:4} {document.name}  {text}", style)

    def counts(self, counts: Mapping[str, Any]) -> None:
        table = Table.grid(padding=(0, 1))
        table.add_column(justify="right")
        queues = counts["left_in_each_queue"]
        left = ", ".join(f"{name} {rows}" for name, rows in queues.items() if rows) or f"{len(queues)} queues"
        for name, meaning in MEANINGS.items():
            if name not in counts:
                continue
            unit = " ms" if name.endswith("_ms") else " s" if name.endswith("_s") else ""
            table.add_row(f"{counts[name]:g}{unit}", meaning.format(left=left))
        title = "Nothing lost, nothing duplicated, every queue empty." if counts["ok"] else "Some counts are wrong."
        self._console.print(Panel(table, title=title, border_style="green" if counts["ok"] else "red", expand=False))

    def reconciliation(self, result: Reconciliation) -> None:
        """Print the result of the reconciliation and the path of its report."""
        if not result.report:
            self.print_line(f"Reconciliation: {result.outcome}. {result.detail}")
            return
        verdicts = ", ".join(f"{number} {name}" for name, number in result.verdicts.items())
        self.print_line(f"Reconciliation: {result.messages} documents: {verdicts}.")
        if result.planted:
            colour = "green" if result.is_good else "red"
            self.print_line(f"{result.found} of {len(result.planted)} planted defects were found.", colour)
        self.print_line(f"Report (kept): {result.report}")
