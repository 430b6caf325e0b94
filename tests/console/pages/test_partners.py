"""The page of partners: users of institutions and their presence."""

import re

import pytest

from semq import __version__
from semq.console.pages import partners
from tests.console.scene import Scene
from tests.local_node.doors.test_user_presence import consume, import_definitions, until_shown
from tests.service.inprocess import InProcess, linked
from tests.waiting import until
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


def test_the_matrix_has_the_institutions_with_the_most_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "MATRIX_MAX", 2)
    pairs = [
        {"source": source, "target": target, "documents": {"forwarded": forwarded, "stored": 1, "released": 9}}
        for source, target, forwarded in (("a", "x", 5), ("b", "x", 4), ("b", "y", 3), ("c", "z", 0))
    ]
    assert partners.matrix(pairs) == {"receivers": ["x", "y"], "rows": [("a", [6, 0]), ("b", [5, 4])], "is_cut": True}


@pytest.mark.asyncio(loop_scope="session")
async def test_institutions_have_the_documents_of_today_and_the_hub_knows_who_they_are(scene: Scene) -> None:
    async def are_counted() -> bool:
        at_node, at_hub = [await scene.ask(where, "figures.pairs") for where in ("node", "hub")]
        return any(row["documents"].get("accepted", 0) >= 62 for row in at_node) and bool(at_hub)

    await until(are_counted)
    at_node = await (await scene.sites["node"].signed_in("viewer")).get("/partners")
    row = at_node.text.partition("partner=56001")[2].partition("</tr>")[0]
    sent = re.search(r'data-label="Sent to it today"[^>]*><span>(\d+)', row)
    assert sent is not None
    assert int(sent[1]) >= 62
    at_hub = (await (await scene.sites["hub"].signed_in("viewer")).get("/partners")).text
    row = at_hub.partition("partner=10008")[2].partition("</tr>")[0]
    assert __version__ in row
    assert "127.0.0.1" in row
    assert "Who sends to whom today" in at_hub
    assert "source=10008&amp;partner=56001" in at_hub
