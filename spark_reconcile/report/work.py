"""The work that a run leaves: how many documents need it, whose work it is, and what to type or whom to call.

The rows are the head of the page, the messages to people (``notice``), and the pages for partners.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from typing import NamedTuple

from spark_reconcile.judgement.verdicts import URGENCY, VERDICT, acting_role, finding_of, next_step
from spark_reconcile.repair.repair_list import HUB
from spark_reconcile.report.findings import Findings
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE
from spark_reconcile.tables import Row

APPLY = "semq reconcile apply --business-date {day} --config FILE --reports FOLDER --yes"
REPAIR = "repair"
REPAIR_TEXT = "Repair through the protocol: type at this node"
NO_LEDGER, LATE_LEDGER = "No ledger", "Late ledger"
LATE_TEXT = "It was delivered after the run of its date: repeat this run and all later ones."
EXTRACT_TEXT = "Its documents cannot be judged. Type at that node, then run the date again:"
# The next step for a missing source whose ledger is unknown.
UNKNOWN_STEPS = {
    THE_HUB: "have every process of the hub extract this date, then run the date again",
    UNKNOWN_STORE: "its delivered ledgers do not mention some institutions: find the process of the hub that serves "
    "them, have it extract and deliver, then run the date again",
}


class PartyWork(NamedTuple):
    """The documents that one party has to deal with in one way."""

    role: str  #: sender, hub, receiver, both ends, or analyst
    nodes: tuple[str, ...]  #: addresses of the party; empty for the analyst, or if they are not known
    documents: int
    verdicts: tuple[tuple[str, int], ...]  #: numbers of documents by verdict, the most urgent first
    text: str  #: what to do, in English; a text of the translations
    command: str  #: what to type at the node; empty if the party has to be called


def work(rows: Iterable[Row], findings: Findings) -> list[PartyWork]:
    """Return the work for exceptions, the largest number of documents first.

    ``rows``: numbers of exceptions by sender, receiver, verdict and finding.
    """
    counted: dict[tuple[str, tuple[str, ...], str], Counter[str]] = {}
    for row in rows:
        role, way = acting_role(row["finding"], row["verdict"]), _way(row["finding"], row["verdict"])
        nodes = {"sender": (row["sender"],), "receiver": (row["receiver"],), HUB: (findings.hub,),
                 "both ends": (row["sender"], row["receiver"])}.get(role, ())  # fmt: skip
        counted.setdefault((role, tuple(filter(None, nodes)), way), Counter())[row["verdict"]] += row["messages"]
    rows_of_work = [_work(*key, counts, findings.day.isoformat()) for key, counts in counted.items()]
    return sorted(rows_of_work, key=lambda each: (-each.documents, each.nodes, each.text))


def _way(finding: str, verdict: str) -> str:
    """Return how the role acts: by the repair list, or as the next step says."""
    return REPAIR if finding_of(finding).deed not in ("", "submit") else next_step(finding, verdict)


def _work(role: str, nodes: tuple[str, ...], way: str, counts: Counter[str], day: str) -> PartyWork:
    verdicts = sorted(counts.items(), key=lambda item: URGENCY.index(item[0]))
    command = APPLY.format(day=day) if way == REPAIR else ""
    text = REPAIR_TEXT if command else way
    return PartyWork(role, nodes, counts.total(), tuple(verdicts), text, command)


def work_facts(rows: Iterable[PartyWork], contacts: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the work for summary.json, with the words of the verdicts, and whom to call where nothing can be typed.

    ``contacts``: by address of an institution.
    """
    return [
        row._asdict()
        | {
            "verdicts": [[name, VERDICT[name].word, count] for name, count in row.verdicts],
            "contacts": [] if row.command else [contacts[node] for node in row.nodes if node in contacts],
        }
        for row in rows
    ]


def gap_facts(gap: Gap, day: date) -> dict[str, object]:
    """Return the work for a missing or late extract. ``day``: the date of the run."""
    facts = {"source": gap.name, "business_date": gap.day.isoformat(), "messages": gap.messages}
    word, text = (LATE_LEDGER, LATE_TEXT) if gap.is_late else (NO_LEDGER, EXTRACT_TEXT)
    command = f"semq reconcile extract --business-date {gap.day} --config FILE"
    if gap.is_late:
        command = f"semq reconcile backfill --from {gap.day} --to {day}"
    elif gap.name in UNKNOWN_STEPS:
        text, command = UNKNOWN_STEPS[gap.name], ""
    return facts | {"word": word, "text": text, "command": command}
