"""The page of the audit log: acts, and displays of payloads."""

import json
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import href, show
from semq.store.audit import AuditFilter, lines
from semq.web.pages.visit import Visit, page

ROWS_MAX = 100  # lines of a page
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
    shown = [row | {"arguments_text": _arguments(row)} for row in rows[:ROWS_MAX]]
    return show(
        visit, "audit.html", rows=shown, filters=filters, payloads=payloads, next=next_page,
        first=href("/audit", **chosen, payloads=int(payloads) or None) if before_number else None,
    )  # fmt: skip


def _arguments(row: dict[str, object]) -> str:
    return json.dumps(row["arguments"], ensure_ascii=False) if row["arguments"] else ""


ROUTES = [page("/audit", audit, role=AccessRole.ADMIN)]
