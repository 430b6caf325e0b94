"""The page of the audit log: acts, and displays of payloads."""

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import href, show
from semq.store.audit import AuditFilter, lines
from semq.web.pages.visit import Visit, page

ROWS_MAX = 100  # lines of a page
LEFT_OUT = re.compile(r"\((\d+ characters|\d+ bytes|not recorded)\)$")  # secrets and payloads in `recorded`
FILTERS = ("who", "act", "outcome")


async def audit(visit: Visit) -> Response:
    """Show the lines that match the filter, the newest first."""
    filters = {name: visit.query.get(name, "").strip() for name in FILTERS}
    chosen: dict[str, Any] = {name: value for name, value in filters.items() if value}
    payloads, before = visit.query.get("payloads") == "1", visit.query.get("before", "")
    before_number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    selection = AuditFilter(**chosen, payloads=payloads, before=before_number, limit=ROWS_MAX + 1)
    rows = await visit.read(lines, selection)
    next_page = (
        href("/audit", **chosen, payloads=int(payloads) or None, before=rows[ROWS_MAX - 1]["number"])
        if len(rows) > ROWS_MAX
        else None
    )
    return show(
        visit, "audit.html", rows=rows[:ROWS_MAX], arguments_of=arguments_of,
        filters=filters, payloads=payloads, next=next_page,
        first=href("/audit", **chosen, payloads=int(payloads) or None) if before_number else None,
    )  # fmt: skip


def arguments_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the arguments of a line as names and texts, documents first; without those that the log does not have."""
    texts = [(name, _text(value)) for name, value in row["arguments"].items() if value not in (None, "")]
    kept = [(name, text) for name, text in texts if not LEFT_OUT.match(text)]
    return sorted(kept, key=lambda argument: argument[0] != "documents")


def _text(value: object) -> str:
    """Return a text, texts with semicolons between them, or JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "; ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ROUTES = [page("/audit", audit, role=AccessRole.ADMIN)]
