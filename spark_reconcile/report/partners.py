"""The pages that can be sent to partners: one for each institution with exceptions, in its language.

A page has the exceptions of documents that the institution has sent or should have received, and nothing else: no
document of others, no line of another node's ledger, no name of an institution without such a document.
"""

import re
from collections import Counter

from semq.foreign_text import in_page
from semq.translations import used
from spark_reconcile.judgement.verdicts import URGENCY, VERDICT, acting_role, finding_of, next_step
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.labels import labelled
from spark_reconcile.report.page import template
from spark_reconcile.report.steps import next_steps
from spark_reconcile.report.words import app_key_type
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row, read_rows

FOLDER = "partners"
PARTNERS_MAX = 1000  # pages of a run
ROWS_MAX = 100  # exceptions on a page
_INSTITUTION = re.compile(r"1\.[A-Za-z0-9_-]{1,64}")  # its address is also the name of its page


def write_partners(table: Place, place: Place, findings: Findings, settings: ReconcileSettings) -> int:
    """Write the pages below ``place``; return their number. ``table``: the exceptions."""
    rows: dict[str, list[Row]] = {}
    counts, yours = Counter[str](), Counter[str]()
    for row in read_rows(table):
        for node in {row["sender"] or "", row["receiver"] or ""}:
            if _INSTITUTION.fullmatch(node) and (node in rows or len(rows) < PARTNERS_MAX):
                counts[node] += 1
                yours[node] += _is_of(node, row)
                _keep(rows.setdefault(node, []), row)
    for node, count in counts.items():
        (place / f"{node}.html").write(_page(node, rows[node], (yours[node], count), findings, settings).encode())
    return len(counts)


def _keep(rows: list[Row], row: Row) -> None:
    """Add a row, and leave only the most urgent ones."""
    rows.append(row)
    if len(rows) > 2 * ROWS_MAX:
        rows.sort(key=_urgency)
        del rows[ROWS_MAX:]


def _urgency(row: Row) -> tuple[int, str]:
    return URGENCY.index(row["verdict"]), row["lk0"]


def _page(
    partner: str, rows: list[Row], counts: tuple[int, int], findings: Findings, settings: ReconcileSettings
) -> str:
    language = settings.languages.get(partner, settings.language)
    kept = sorted(rows, key=_urgency)[:ROWS_MAX]
    described = [_described(partner, row, findings) for row in kept]
    known = {partner, *(row["other"] for row in described)}
    with used(language):
        page = template(findings.calendar, language, "partner.html").render(
            language=language,
            partner=partner,
            names={node: name for node, name in settings.names.items() if node in known},
            day=findings.day.isoformat(),
            yours=counts[0],
            count=counts[1],
            rows=described,
        )
        return labelled(in_page(page))


def _is_of(partner: str, row: Row) -> bool:
    """Return whether the partner has to act."""
    role = acting_role(row["finding"], row["verdict"])
    return role in {"both ends", *(side for side in ("sender", "receiver") if row[side] == partner)}


def _described(partner: str, row: Row, findings: Findings) -> Row:
    is_sender = row["sender"] == partner
    steps = next_steps(row, findings.day.isoformat(), findings.hub)
    accepted = row["accepted_at"]
    return {
        "lk0": row["lk0"], "key_type": app_key_type(row), "verdict": VERDICT[row["verdict"]],
        "words": finding_of(row["finding"]).meaning,
        "is_sender": is_sender, "other": row["receiver"] if is_sender else row["sender"],
        "role": acting_role(row["finding"], row["verdict"]),
        "accepted": findings.calendar.local(accepted)[:19] if accepted is not None else "",
        "is_yours": _is_of(partner, row), "step": next_step(row["finding"], row["verdict"]),
        "commands": [step.command for step in steps if step.node == partner],
    }  # fmt: skip
