"""The page of the audit log: acts, and displays of payloads."""

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.answers.acts import argument_texts
from semq.console.bulk import AUDIT_PREFIX
from semq.console.display import href, show, translator
from semq.console.words import ACTS_IN_LOG, LABELS
from semq.store.audit import AuditFilter, lines
from semq.web.pages.visit import Visit, page

ROWS_MAX = 100  # lines of a page
FILTERS = ("who", "act", "outcome")


async def audit(visit: Visit) -> Response:
    """Show the lines that match the filter, the newest first."""
    filters = {name: visit.query.get(name, "").strip() for name in FILTERS}
    chosen: dict[str, Any] = {name: value for name, value in filters.items() if value}
    payloads, before = visit.query.get("payloads") == "1", visit.number("before") or None
    selection = AuditFilter(**chosen, payloads=payloads, before=before, limit=ROWS_MAX + 1)
    rows = await visit.read(lines, selection)
    next_page = (
        href("/audit", **chosen, payloads=int(payloads) or None, before=rows[ROWS_MAX - 1]["number"])
        if len(rows) > ROWS_MAX
        else None
    )
    return show(
        visit, "audit.html", rows=rows[:ROWS_MAX], argument_texts=argument_texts,
        act_words=partial(act_words, translator(visit)),
        filters=filters, payloads=payloads, next=next_page,
        first=href("/audit", **chosen, payloads=int(payloads) or None) if before else None,
    )  # fmt: skip


def act_words(_: Callable[[str], str], act: str) -> str:
    """Return what an act of the log does; empty for the address of a refused form."""
    words = LABELS.get(act.removeprefix(AUDIT_PREFIX)) if act.startswith(AUDIT_PREFIX) else ACTS_IN_LOG.get(act)
    return _(words or "")


ROUTES = [page("/audit", audit, role=AccessRole.ADMIN)]
