"""The page of partners: presence, documents of today and waiting ones, agreements, certificates; who sends to whom."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from semq.console.display import show
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, page

USERS_SHOWN = 200  # largest number of users on the page


SENT, RECEIVED, REFUSED = "sent_today", "received_today", "refused_today"
# Kind of node | figure of an institution | its end of the pair, kinds of documents that count
TODAY: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "local": {
        SENT: ("target", ("accepted",)), RECEIVED: ("source", ("received",)), REFUSED: ("target", ("failed",)),
    },
    "platform": {
        SENT: ("source", ("forwarded", "stored")), RECEIVED: ("target", ("forwarded", "released")),
        REFUSED: ("target", ("refused",)),
    },
}  # fmt: skip
MATRIX_MAX = 12  # institutions on a side of the matrix: those with the most documents


async def partners(visit: Visit) -> Response:
    """Show the institutions with today's documents, who sends to whom, and the users of partners."""
    status, census, pairs = await asyncio.gather(
        visit.ask("node.status"), visit.ask("queue.census"), visit.ask("figures.pairs")
    )
    is_hub = status["kind"] == "platform"
    nodes = await visit.ask("nodes.list") if is_hub else []
    users = [] if is_hub else await visit.ask("users.list", limit=USERS_SHOWN + 1)
    rows = {node: dict(partner) for node, partner in (status.get("partners") or {}).items()}
    for node in nodes:
        seen = {name: node.get(name, "") for name in ("seen_at", "address", "version")}
        rows[node["node"]] = {"online": node["online"], "waiting": node["held"], **seen}
    for pair in census["pairs"]:
        _add(rows.setdefault(pair["target"], {}), pair)
    for pair in pairs:
        _add_today(rows, pair, status["kind"], status["node"])
    days_left = status.get("certificates") or {}
    shown = [{"node": node, **row, "days_left": days_left.get(node)} for node, row in sorted(rows.items())]
    return show(
        visit, "partners.html", rows=shown, counted_at=census["as_of"], is_hub=is_hub, live=LIVE,
        matrix=matrix(pairs) if is_hub else None, users=users[:USERS_SHOWN], are_more_users=len(users) > USERS_SHOWN,
    )  # fmt: skip


def matrix(pairs: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return who sent to whom today: senders, receivers, and the documents that the hub passed on or stored."""
    cells = Counter[tuple[str, str]]()
    for pair in pairs:
        documents = sum(pair["documents"].get(kind, 0) for kind in TODAY["platform"][SENT][1])
        cells[pair["source"], pair["target"]] += documents
    sums = Counter[str](), Counter[str]()
    for pair_of_nodes, documents in cells.items():
        for sum_, node in zip(sums, pair_of_nodes, strict=True):
            sum_[node] += documents
    senders, receivers = (sorted(node for node, _ in sum_.most_common(MATRIX_MAX)) for sum_ in sums)
    table = [(sender, [cells[sender, receiver] for receiver in receivers]) for sender in senders]
    return {"receivers": receivers, "rows": table, "is_cut": max(map(len, sums)) > MATRIX_MAX}


def _add_today(rows: dict[str, dict[str, Any]], pair: Mapping[str, Any], kind: str, own: str) -> None:
    """Add the documents of a pair to the rows of its institutions."""
    for name, (end, kinds) in TODAY[kind].items():
        node = pair[end]
        if node in rows or node != own:
            row = rows.setdefault(node, {})
            row[name] = row.get(name, 0) + sum(pair["documents"].get(each, 0) for each in kinds)


def _add(row: dict[str, Any], pair: Mapping[str, Any]) -> None:
    row["bytes"] = row.get("bytes", 0) + pair["bytes"]
    row["late"] = row.get("late", 0) + pair["late"]
    row["counted"] = row.get("counted", 0) + pair["rows"]
    row["oldest_at"] = min(row.get("oldest_at") or pair["oldest_at"], pair["oldest_at"])


ROUTES = [page("/partners", partners)]
