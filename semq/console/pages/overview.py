"""The start page: what needs attention first, then the figures of the node."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from semq.console import runs
from semq.console.display import show, translator
from semq.console.live import LIVE, live
from semq.console.words import CHECKS, ELSE, VERDICT_WORDS
from semq.web.pages.visit import Visit, page

CAUSES_MAX, OFFLINE_MAX = 8, 8
OF_FAILED = ("PARKED", "REFUSED", "CANNOT_OPEN", "SUBMISSION_REFUSED")  # these are on the page of failed documents
# Counter of the engine | its label
TRAFFIC = {
    "local": ("accepted", "delivered", "received", "rejected"),
    "platform": ("forwarded", "stored", "released", "refused"),
}


async def overview(visit: Visit) -> Response:
    """Show messages and checks that need attention, and the figures."""
    status, health, census, causes, jobs = await asyncio.gather(
        visit.ask("node.status"), visit.ask("node.health"), visit.ask("queue.census"), visit.ask("stuck.causes"),
        visit.ask("job.list"),
    )  # fmt: skip
    checks = worded_checks(visit, health["checks"])
    offline = list(_offline(status, census))[:OFFLINE_MAX]
    stuck = [row for row in causes["rows"] if row["cause"] not in OF_FAILED][:CAUSES_MAX]
    named = {row["partner"] for row in stuck if row["cause"] == "TARGET_OFFLINE"}
    offline = [one for one in offline if one["node"] not in named]
    late = [job for job in jobs if job["error"] or job["paused_at"]]
    run = await asyncio.to_thread(runs.newest, visit.web.settings)
    is_calm = all(one["verdict"] == "ok" for one in checks) and not (stuck or offline or late or census["failed"])
    return show(
        visit, "overview.html", status=status, checks=checks, census=census, causes=stuck, offline=offline,
        late_jobs=late, run=run, calm=is_calm, figures=list(_figures(visit, status, census)), live=LIVE,
    )  # fmt: skip


def worded_checks(visit: Visit, checks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return health checks with translated names and next steps, the worst first."""
    _ = translator(visit)
    worded = []
    for one in checks:
        name, step = CHECKS.get(str(one["check"]), ELSE)
        verdict = str(one["verdict"])
        worded.append(
            {
                "check": one["check"], "name": _(name) if name else one["check"], "verdict": verdict,
                "word": _(VERDICT_WORDS.get(verdict, verdict)), "detail": one.get("detail") or "", "step": _(step),
            }
        )  # fmt: skip
    order = ("failing", "warning", "ok")
    return sorted(worded, key=lambda one: order.index(one["verdict"]) if one["verdict"] in order else 0)


def _offline(status: Mapping[str, Any], census: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield partners that are offline while messages wait for them, the most messages first."""
    waiting: dict[str, int] = {}
    for pair in census["pairs"]:
        waiting[pair["target"]] = waiting.get(pair["target"], 0) + pair["rows"]
    partners = status.get("partners") or {}
    for node, count in sorted(waiting.items(), key=lambda one: one[1], reverse=True):
        facts = partners.get(node)
        if count and facts is not None and not facts["online"]:
            yield {"node": node, "waiting": count}


def _figures(
    visit: Visit, status: Mapping[str, Any], census: Mapping[str, Any]
) -> Iterator[tuple[str, object, str, str]]:
    """Yield the figures of the page: word, number, address, note."""
    _ = translator(visit)
    words = {
        "accepted": _("accepted from applications"), "delivered": _("delivered"), "received": _("received"),
        "rejected": _("rejected"), "forwarded": _("forwarded"), "stored": _("stored for offline institutions"),
        "released": _("delivered from the store"), "refused": _("refused"),
    }  # fmt: skip
    since = _("since the start")
    counted = bool(census["as_of"])
    waiting = sum(pair["rows"] for pair in census["pairs"]) + census["submitted"].get("in_pieces", 0)
    is_local = status["kind"] == "local"
    yield _("waiting or under way"), waiting if counted else "…", "/partners", _("now")
    yield _("stuck"), census["stuck"] if counted else "…", "/stuck", _("now")
    if is_local:
        yield _("failed"), census["failed"] if counted else "…", "/failed", _("now")
    for name in TRAFFIC["local" if is_local else "platform"]:
        yield words[name], (status.get("counters") or {}).get(name, 0), "/messages", since


ROUTES = [page("/", overview), page(LIVE, live)]
