"""The start page: what needs attention, and the figures of the node."""

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter

from starlette.responses import Response

from semq.answers.messages import QueueCensus, Sums
from semq.console import runs
from semq.console.charts import axis, charts_of
from semq.console.details import detail_words
from semq.console.display import show, translator
from semq.console.live import LIVE, live
from semq.console.pages.figures import period_words
from semq.console.words import CHECKS, OTHER_CHECK, OUTCOMES, VERDICT_WORDS
from semq.service.operations.figures import PERIODS
from semq.status_words import FIGURES
from semq.web.pages.visit import Visit, page

CAUSES_MAX, OFFLINE_MAX = 8, 8  # causes of stuck messages, and offline partners, on the page
# Causes of failed documents, which have their own figure
FAILED_CAUSES = ("PARKED", "REFUSED", "CANNOT_OPEN", "SUBMISSION_REFUSED")
UNREAD = "/messages?side=inbound&state=NEW&order=oldest"


async def overview(visit: Visit) -> Response:
    """Show the start page."""
    status, health, census, causes, jobs, *traffic = await asyncio.gather(
        visit.ask("node.status"), visit.ask("node.health"), visit.ask("queue.census"), visit.ask("stuck.causes"),
        visit.ask("job.list"), *(visit.ask("figures.traffic", period=period) for period in PERIODS),
    )  # fmt: skip
    _ = translator(visit)
    words = period_words(_)
    periods = [
        (words[each["period"]], each["period"], list(charts_of(_, each, status["kind"])), axis(each))
        for each in traffic
    ]
    checks = worded_checks(visit, health["checks"])
    failed = sum(row["rows"] for row in causes["rows"] if row["cause"] in FAILED_CAUSES)
    stuck = [row for row in causes["rows"] if row["cause"] not in FAILED_CAUSES][:CAUSES_MAX]
    offline_in_stuck = {row["partner"] for row in stuck if row["cause"] == "TARGET_OFFLINE"}
    offline = list(islice(offline_partners(census["pairs"], offline_in_stuck), OFFLINE_MAX))
    failing_jobs = [job for job in jobs if job["error"] or job["paused_at"]]
    run = await asyncio.to_thread(runs.newest, visit.web.settings, visit.web.clock.wall().date())
    if run is not None and run["outcome"] == "met":
        run = None
    run_word = OUTCOMES[run["outcome"]] if run else ""
    is_calm = all(check["verdict"] == "ok" for check in checks) and not (
        stuck or offline or failing_jobs or run or census["failed"]
    )
    return show(
        visit, "overview.html", status=status, checks=checks, census=census, causes=stuck, offline=offline,
        failing_jobs=failing_jobs, run=run, run_word=run_word, is_calm=is_calm,
        figures=list(_figures(visit, status, census, failed)), periods=periods, live=LIVE,
    )  # fmt: skip


def worded_checks(visit: Visit, checks: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return health checks with translated texts, the worst first."""
    _ = translator(visit)
    worded = []
    for check in checks:
        name, step = CHECKS.get(str(check["check"]), OTHER_CHECK)
        verdict = str(check["verdict"])
        worded.append(
            {
                "check": check["check"], "name": _(name) if name else check["check"], "verdict": verdict,
                "word": _(VERDICT_WORDS.get(verdict, verdict)), "step": _(step),
                "detail": detail_words(_, check.get("detail") or ""),
            }
        )  # fmt: skip
    order = {"failing": 0, "warning": 1, "ok": 2}
    return sorted(worded, key=lambda check: order.get(check["verdict"], 0))


def offline_partners(pairs: Iterable[Sums], shown: Container[str]) -> Iterator[dict[str, object]]:
    """Yield the partners, except ``shown``, that are offline while messages wait for them, the most messages first."""
    waiting: dict[str, int] = {}
    for pair in pairs:
        if pair["online"] is False and pair["target"] not in shown:
            waiting[pair["target"]] = waiting.get(pair["target"], 0) + pair["rows"]
    for node, count in sorted(waiting.items(), key=itemgetter(1), reverse=True):
        yield {"node": node, "waiting": count}


def _figures(
    visit: Visit, status: Mapping[str, object], census: QueueCensus, failed: int
) -> Iterator[tuple[str, object, str]]:
    """Yield the figures of now: label, number, address of the page with details.

    ``failed``: those of the stuck ones that have failed and count there.
    """
    _ = translator(visit)
    is_counted = bool(census["as_of"])
    waiting = sum(pair["rows"] for pair in census["pairs"]) + census["submitted"].get("in_pieces", 0)
    is_local = status["kind"] == "local"
    yield _(FIGURES["sender" if is_local else "hub"]), waiting if is_counted else "…", "/partners"
    if is_local:
        unread = sum(inbox["rows"] for inbox in census["inboxes"])
        yield _("in the inbox"), unread if is_counted else "…", UNREAD
    yield _("stuck"), max(census["stuck"] - failed, 0) if is_counted else "…", "/stuck"
    if is_local:
        yield _("failed"), census["failed"] if is_counted else "…", "/failed"


ROUTES = [page("/", overview), page(LIVE, live)]
