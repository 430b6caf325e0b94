"""Output for people."""

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

SAMPLES = Path(__file__).parents[2] / "examples" / "documents"
SHOWN_MAX = 120  # documents whose changes have lines: of more, only each second, third, ...
# Name of a count | its row in the box.
MEANINGS = {
    "accepted": "accepted: committed at 10008 and confirmed to its application",
    "forwarded": "sent on at once, without being stored on the way",
    "stored": "stored on the way until the receiver came back",
    "delivered": "delivered: 10008 knows that the receiver has them (SS_ACK2)",
    "received": "received and acknowledged by the receiver's application",
    "redelivered": "of them delivered again after a crash, marked as redelivered",
    "duplicated": "duplicated",
    "lost": "lost",
    "digest_mismatches": "with different bytes at the receiver (SHA-256 compared)",
    "left_in_queues": "left in the queues ({left})",
    "median_ms": "from submit to SS_ACK2 while online, median",
    "takeover_s": "from the kill of an instance until the standby served its store",
}
HINTS = """
What to try next
  ./run demo --stay          leave the nodes running, to use them from another terminal
  ./run demo --count 500     more documents; kill -9 any of their processes meanwhile
  ./run demo --inject        plant some defects, which the reconciliation must find
  ./run demo --cluster       a hub of two instances and a standby, of which one is killed
"""
HINTS_STAYING = """
What to try next, in another terminal
  ./run semq msg send --node {sender.url} --to 56001 --type order --file README.md --wait delivered
  ./run semq msg list --node {sender.url}
  ./run semq node status --node {hub.url}
"""


class Display:
    """Prints the progress of the documents, a line for each change, and the results."""

    def __init__(self, console: Console, tracker: DocumentTracker) -> None:
        self._console = console
        self._tracker = tracker

    def line(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text, style), soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        """Print a line with the time and its offset from UTC."""
        now = time_of_day(datetime.now().astimezone(), "milliseconds")
        self._console.print(Text.assemble((now, "dim"), " ", (text, style)), soft_wrap=True)

    def changed(self, document: TrackedDocument) -> None:
        """Show a new state."""
        status, description, colour = STATES[document.state]
        took = f" after {document.took_ms:.1f} ms" if document.state == "delivered" else ""
        reason = f": {document.reason}" if document.reason else ""
        self._say_of(document, f"{status or document.state}  {description}{took}{reason}", colour)

    def read(self, app_key: AppKey) -> None:
        """Show that the receiver's application has acknowledged a document."""
        document = self._tracker.documents.get(app_key)
        if document is not None:
            self._say_of(document, f"read and acknowledged by the application of {document.target}")

    def _say_of(self, document: TrackedDocument, text: str, style: str = "") -> None:
        if document.number % (len(self._tracker.documents) // SHOWN_MAX + 1) == 0:
            self.say(f"{document.number:4} {document.name}  {text}", style)

    def counts(self, counts: Mapping[str, Any]) -> None:
        """Print the counts."""
        drawn = Table.grid(padding=(0, 1))
        drawn.add_column(justify="right")
        queues = counts["left_in_each_queue"]
        left = ", ".join(f"{name} {rows}" for name, rows in queues.items() if rows) or f"{len(queues)} queues"
        for name, meaning in MEANINGS.items():
            if name not in counts:
                continue
            unit = " ms" if name.endswith("_ms") else " s" if name.endswith("_s") else ""
            drawn.add_row(f"{counts[name]:g}{unit}", meaning.format(left=left))
        good = "Nothing lost, nothing duplicated, every queue empty."
        title = good if counts["ok"] else "Some numbers are not as they should be."
        self._console.print(Panel(drawn, title=title, border_style="green" if counts["ok"] else "red", expand=False))

    def reconciliation(self, found: Reconciliation) -> None:
        """Print the result of the reconciliation and the path of its report."""
        if not found.report:
            self.line(f"Reconciliation: {found.outcome}. {found.detail}")
            return
        verdicts = ", ".join(f"{number} {name}" for name, number in found.verdicts.items())
        self.line(f"Reconciliation: {found.messages} documents: {verdicts}.")
        if found.planted:
            colour = "green" if found.is_good else "red"
            self.line(f"{found.found} of {len(found.planted)} planted defects were found.", colour)
        self.line(f"Report (kept): {found.report}")
