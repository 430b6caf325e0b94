"""The page of partners: presence, waiting messages, quotas, agreements, certificates; users of institutions."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from semq.console.display import show
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, page

USERS_SHOWN = 200  # largest number of users on the page


async def partners(visit: Visit) -> Response:
    """Show the institutions and, at a local node, the users of partners."""
    status, census = await asyncio.gather(visit.ask("node.status"), visit.ask("queue.census"))
    is_hub = status["kind"] == "platform"
    nodes = await visit.ask("nodes.list") if is_hub else []
    users = [] if is_hub else await visit.ask("users.list", limit=USERS_SHOWN + 1)
    rows = {node: dict(partner) for node, partner in (status.get("partners") or {}).items()}
    for node in nodes:
        rows[node["node"]] = {"online": node["online"], "waiting": node["held"]}
    for pair in census["pairs"]:
        _add(rows.setdefault(pair["target"], {}), pair)
    days_left = status.get("certificates") or {}
    shown = [{"node": node, **row, "days_left": days_left.get(node)} for node, row in sorted(rows.items())]
    return show(
        visit, "partners.html", rows=shown, counted_at=census["as_of"], is_hub=is_hub, live=LIVE,
        users=users[:USERS_SHOWN], are_more_users=len(users) > USERS_SHOWN,
    )  # fmt: skip


def _add(row: dict[str, Any], pair: Mapping[str, Any]) -> None:
    row["bytes"] = row.get("bytes", 0) + pair["bytes"]
    row["late"] = row.get("late", 0) + pair["late"]
    row["counted"] = row.get("counted", 0) + pair["rows"]
    row["oldest_at"] = min(row.get("oldest_at") or pair["oldest_at"], pair["oldest_at"])


ROUTES = [page("/partners", partners)]
