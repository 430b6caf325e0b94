"""The page of partners: users of institutions and their presence."""

import re

import pytest

from tests.local_node.doors.test_user_presence import consume, import_definitions, until_shown
from tests.service.inprocess import InProcess, linked
from tests.web.running import Browser, serving


async def rows(browser: Browser) -> list[list[str]]:
    """Return the cells of the table of users."""
    page = (await browser.get("/partners")).text
    table = page.partition("Users of institutions</caption>")[2].partition("</table>")[0]
    lines = [re.findall(r"<td[^>]*><span>(.*?)</span></td>", line, re.DOTALL) for line in table.split("<tr>")[2:]]
    return [[re.sub("<[^>]*>", "", cell) for cell in line] for line in lines]


async def test_users_are_listed_with_their_presence(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    await import_definitions(inprocess, hub)
    await consume(await inprocess.client(b), "sales")
    await until_shown(inprocess, a, {"1.56001/desk": False, "1.56001/sales": True})
    async with serving(a) as site:
        browser = await site.signed_in()
        first, second = ["56001", "sales", "receives now"], ["56001", "desk", "no program"]
        assert await rows(browser) == [first, second]
        assert "semq queue users" not in (await browser.get("/partners")).text
        monkeypatch.setattr("semq.console.pages.partners.USERS_SHOWN", 1)
        assert await rows(browser) == [first]
        assert "semq queue users" in (await browser.get("/partners")).text
