"""The test of pages in a browser visits every page of the console."""

from semq.console.live import LIVE
from semq.console.routes import ROUTES
from tests.console.test_pages_in_browser import PAGES

# Address | why the list of pages lacks it
NOT_LISTED = {
    LIVE: "a stream of events",
    "/messages/{name}": "the browser test adds it, with the names of the messages in its scene",
    "/acts/{key}": "exists only after the form of an act was posted",
    "/messages.csv": "a file",
    "/definitions/export": "a file",
    "/reconciliation/{day}/{name}/{file}": "a file",
    "/reconciliation/{day}/{name}/partners/{file}": "a file",
}


def test_every_page_is_visited_in_a_browser() -> None:
    visited = {path.partition("?")[0] for paths in PAGES.values() for path in paths}
    pages = [route for route in ROUTES if "GET" in (route.methods or ())]
    assert {page.path for page in pages if not any(map(page.path_regex.match, visited))} == NOT_LISTED.keys()
