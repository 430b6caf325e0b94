"""The test of pages in a browser visits every page of the console; each refuses a query that no person makes."""

import pytest

from semq.console.live import LIVE
from semq.console.routes import ROUTES
from tests.console.scene import Scene
from tests.console.test_pages_in_browser import PAGES

HOSTILE = ("x=1&x=1", f"x={'a' * 10_000}", "x=%00", "x=%1B[31m", "x=%E2%80%AE", "x=%ED%A0%80")
DAYS = ("0000-00-00", "2026-02-30", "9999-12-31", "10000-01-01", "2026-1-1", "1969-12-30", "-1")
# Page | its parameters that are numbers
NUMBERED = {"/messages": ("before", "line", "outbound"), "/audit": ("before",), "/failed": ("inbound",)}
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


@pytest.mark.asyncio(loop_scope="session")
async def test_a_hostile_query_gets_a_page_with_the_code_of_its_error(scene: Scene) -> None:
    numbers = ("9" * 5000, "9" * 20, "-1", "٣", "²")
    queries = [f"{page}?{name}={number}" for page, names in NUMBERED.items() for name in names for number in numbers]
    queries += [f"{page}?to={day}" for page in ("/messages", "/messages.csv") for day in DAYS]
    for where, paths in PAGES.items():
        browser = await scene.sites[where].signed_in()
        pages = {path.partition("?")[0] for path in paths}
        for query in [f"{page}?{query}" for page in pages for query in HOSTILE] + (queries if where == "node" else []):
            answer = await browser.get(query)
            assert answer.status_code == 400, query
            assert "SEMQ-1404" in answer.text or "SEMQ-2102" in answer.text, query


@pytest.mark.asyncio(loop_scope="session")
async def test_a_key_that_an_application_decoded_wrongly_can_be_searched(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in()
    assert (await browser.get("/messages?find=SRM/order/SAP/%EF%BF%BD7")).status_code == 200
