"""The page of health: checks with their next steps, violations by peers, and figures of the node."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from starlette.responses import Response

from semq.console.display import show, translator
from semq.console.live import LIVE
from semq.console.pages.overview import worded_checks
from semq.console.words import NODE_FIGURES
from semq.durations import duration
from semq.sizes import size
from semq.web.pages.visit import Visit, page


async def health(visit: Visit) -> Response:
    """Show the page of health."""
    answer, status = await asyncio.gather(visit.ask("node.health"), visit.ask("node.status"))
    return show(
        visit, "health.html", checks=worded_checks(visit, answer["checks"]), verdict=answer["verdict"], status=status,
        figures=list(_figures(translator(visit), status)), live=LIVE,
    )  # fmt: skip


def _figures(
    _: Callable[[str], str], status: Mapping[str, Mapping[str, float] | None]
) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the parts of the state with their figures: in words, code, value."""
    for part, (title, words) in NODE_FIGURES.items():
        values = status.get(part) or {}
        names = [*(name for name in words if name in values), *sorted(values.keys() - words.keys())]
        if names:
            rows = ((_(words[name]) if name in words else "", name, _text(name, values[name])) for name in names)
            yield _(title), list(rows)


def _text(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return size(value)
    return duration(value) if name.endswith("_s") else f"{value:,}"


ROUTES = [page("/health", health)]
