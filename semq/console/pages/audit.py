"""The audit log: user, act, means of sign-in, address and outcome; also each display of a payload."""

import json
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import href, show
from semq.store.audit import Wanted, lines
from semq.web.pages.visit import Visit, page

PAGE = 100
FILTERS = ("who", "act", "outcome")


async def audit(visit: Visit) -> Response:
    """Lines that fit the filter, the newest first."""
    given = {name: visit.query.get(name, "").strip() for name in FILTERS}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value}
    payloads, before = visit.query.get("payloads") == "1", visit.query.get("before", "")
    number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    wanted = Wanted(**chosen, payloads=payloads, before=number, limit=PAGE + 1)
    rows = await visit.read(lines, wanted)
    following = (
        href("/audit", **chosen, payloads=int(payloads) or None, before=rows[PAGE - 1]["number"])
        if len(rows) > PAGE
        else None
    )
    shown = [row | {"arguments_text": _arguments(row)} for row in rows[:PAGE]]
    return show(
        visit, "audit.html", rows=shown, given=given, payloads=payloads, next=following,
        first=href("/audit", **chosen, payloads=int(payloads) or None) if number else None,
    )  # fmt: skip


def _arguments(row: dict[str, object]) -> str:
    return json.dumps(row["arguments"], ensure_ascii=False) if row["arguments"] else ""


ROUTES = [page("/audit", audit, role=AccessRole.ADMIN)]
