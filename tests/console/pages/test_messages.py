"""The pages of messages: documents to groups, payloads, ended documents and their CSV."""

import csv
import io

import pytest

from semq.app import Client
from semq.console.pages import messages
from semq.console.pages.messages import SHOWN_MAX, _readable
from tests.console.scene import Scene
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until
from tests.web.running import Browser, serving

DEFINITIONS = """
[groups.away]
members = ["10008", "88001"]
"""


async def test_members_are_listed_and_cancelled_together(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    reply = await ask(await inprocess.client(hub), "definitions.import", {"document": DEFINITIONS})
    assert reply["ok"], reply
    node = await inprocess.local("56001", hub.port)
    await linked(node)
    await until(lambda: "3.away" in node.engine.partners.groups)
    async with Client(f"amqp://guest:guest@127.0.0.1:{node.port}") as sender, serving(node) as site:
        sent = await sender.send("3.away", b"x", app_key="trade/order//G")
        browser = await site.signed_in("operator")
        page = (await browser.get(f"/messages/{sent.lk0}")).text
        assert "Document to 3.away" in page
        rows = (await sender.look(sent.lk0))["members"]
        assert len(rows) == 2
        assert all(f'href="/messages/{row["lk0"]}"' in page and row["name"] in page for row in rows)
        assert (await browser.get(f"/messages/{rows[0]['lk0']}")).status_code == 200
        await run_act(browser, sent.lk0, "cancel")

        async def are_cancelled() -> bool:
            return [row["void"] for row in (await sender.request("msg.list", {"partner": "10008"}))["rows"]] == [True]

        await until(are_cancelled)
        viewer = await site.signed_in("viewer")
        page = (await viewer.get(f"/messages/{sent.lk0}")).text
        assert rows[0]["name"] in page
        assert "/acts/prepare" not in page


async def run_act(browser: Browser, lk0: str, act: str) -> None:
    """Prepare and start an act on one message."""
    prepared = await browser.post_form("/acts/prepare", ids=[lk0], act=act, back=f"/messages/{lk0}")
    assert (prepared.status_code, prepared.headers["location"][:6]) == (303, "/acts/")
    await browser.post_form(f"{prepared.headers['location']}/start", why="not wanted")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("订单".encode(), "订单"),
        (("订" * SHOWN_MAX).encode(), "订" * (SHOWN_MAX // 3)),  # the last character is cut off
        ("订单".encode("gbk"), None),
        (("订" * SHOWN_MAX).encode("gbk"), None),
        (b"a\0b", None),
    ],
)
def test_a_payload_is_text_only_if_it_is_utf_8(payload: bytes, text: str | None) -> None:
    shown, is_hex = _readable(payload[:SHOWN_MAX])
    assert is_hex is (text is None)
    assert shown.replace("\n", "") == (payload[:SHOWN_MAX].hex(" ") if text is None else text)


# -------------------------------------------------------------------------------------------- ended documents

TODAY = "/messages?ended=true&from=today&to=today&side=outbound&partner=10008"


@pytest.mark.asyncio(loop_scope="session")
async def test_one_address_shows_ended_documents_with_count_position_and_outcomes(scene: Scene) -> None:
    browser = await scene.sites["node"].signed_in("viewer")
    page = (await browser.get(f"{TODAY}&type=statement&state=DELIVERED")).text
    assert "2 documents" in page
    assert "1 to 2" in page
    assert scene.lk0s["failed"] in page
    assert "<script>window" not in page
    assert "No ended document matches" in (await browser.get(f"{TODAY}&state=LOST")).text
    assert "No ended document matches" in (await browser.get("/messages?ended=true&to=yesterday")).text
    wrong = await browser.get("/messages?ended=true&from=x")
    assert (wrong.status_code, "2026-03-31" in wrong.text) == (400, True)


@pytest.mark.asyncio(loop_scope="session")
async def test_pages_continue_with_their_position_and_csv_has_all_of_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "ROWS", 2)
    monkeypatch.setattr(messages, "CSV_ROWS", 1)
    browser = await scene.sites["node"].signed_in("viewer")
    page = (await browser.get(TODAY)).text
    assert "1 to 2" in page
    following = page.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert "3 to 3" in (await browser.get(following)).text
    answer = await browser.get(TODAY.replace("/messages", "/messages.csv", 1))
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"))))
    assert {row["lk0"] for row in rows} == {scene.lk0s[name] for name in ("failed", "failed too", "received")}
    assert {(row["receiver"], row["state"], row["type"]) for row in rows} == {
        ("10008", "DELIVERED", "statement"), ("10008", "DELIVERED", "notice"),
    }  # fmt: skip


@pytest.mark.asyncio(loop_scope="session")
async def test_programs_get_the_csv_of_an_address_by_token(scene: Scene) -> None:
    site, address = scene.sites["node"], TODAY.replace("/messages", "/messages.csv", 1)
    answers = {}
    for scope in ("viewer", "submit", ""):
        token = await site.token(scope) if scope else "semq_wrong"
        answers[scope] = await (await site.browser()).get(address, headers={"Authorization": f"Bearer {token}"})
    assert answers["viewer"].headers["content-type"].startswith("text/csv")
    assert (answers["submit"].status_code, answers[""].status_code) == (403, 401)


def test_no_cell_of_a_csv_is_a_formula() -> None:
    assert [messages._csv_cell(cell) for cell in ("=1+1", "-1", "@x", "a", None, 7)] == [
        "'=1+1",
        "'-1",
        "'@x",
        "a",
        "",
        "7",
    ]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_search_without_a_match_offers_the_same_search_of_the_ended_or_of_the_others(scene: Scene) -> None:
    browser = await scene.sites["hub"].signed_in("viewer")
    query = "partner=40032&amp;source=10008"
    ended = await browser.get("/messages?ended=true&from=today&state=REFUSED&source=10008&partner=40032")
    assert f'href="/messages?{query}"' in ended.text
    others = await browser.get("/messages?state=SS_INIT&source=10008&partner=40032")
    assert f'href="/messages?{query}&amp;ended=true"' in others.text
