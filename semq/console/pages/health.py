"""The page of health: checks with their next steps, violations by peers, and figures of the node."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from semq.console.display import show
from semq.console.live import LIVE
from semq.console.pages.overview import worded_checks
from semq.web.pages.visit import Visit, page

PARTS = ("counters", "amqp", "store")


async def health(visit: Visit) -> Response:
    """Show the page of health."""
    answer, status = await asyncio.gather(visit.ask("node.health"), visit.ask("node.status"))
    return show(
        visit, "health.html", checks=worded_checks(visit, answer["checks"]), verdict=answer["verdict"], status=status,
        figures=list(_figures(status)), live=LIVE,
    )  # fmt: skip


def _figures(status: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    for part in PARTS:
        for name, value in sorted((status.get(part) or {}).items()):
            yield part, name, round(value, 3) if isinstance(value, float) else value


ROUTES = [page("/health", health)]
