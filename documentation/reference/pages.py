"""The pages of the reference."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from documentation.reference import attributes, commands, configuration, errors, http, log_events, metrics, sql


class GeneratedPage(NamedTuple):
    """A page, made when the site is built."""

    title: str
    about: str
    lines: Callable[[], Iterator[str]]


# place in the site | page
PAGES: dict[str, GeneratedPage] = {
    "reference/configuration.md": GeneratedPage(
        "Configuration", "keys: type, default, meaning, whether a reload applies them", configuration.page
    ),
    "reference/commands.md": GeneratedPage("Commands", "`semq`: arguments and options", commands.page),
    "reference/attributes.md": GeneratedPage("Attributes", "headers and properties of a document", attributes.page),
    "reference/http.md": GeneratedPage("HTTP API", "addresses, rights, arguments", http.page),
    "reference/sql.md": GeneratedPage("SQL functions", "for applications in their own transaction", sql.page),
    "reference/errors.md": GeneratedPage("Error codes", "meanings and remedies", errors.page),
    "reference/metrics.md": GeneratedPage("Metrics", "and counters of events", metrics.page),
    "reference/log-events.md": GeneratedPage("Log events", "names, levels and facts", log_events.page),
}
INDEX = "reference/index.md"


def texts() -> Iterator[tuple[str, str]]:
    """Yield place and text of every page, the index first."""
    yield (
        INDEX,
        "\n".join(("# Reference", "", "Made from the tables that the product itself uses.", "", *_index())) + "\n",
    )
    for place, page in PAGES.items():
        yield place, "\n".join((f"# {page.title}", "", *page.lines())) + "\n"


def _index() -> Iterator[str]:
    yield from ("| page | content |", "|---|---|")
    yield from (f"| [{page.title}]({place.partition('/')[2]}) | {page.about} |" for place, page in PAGES.items())
