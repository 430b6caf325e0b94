"""The pages of messages: documents to groups, and payloads."""

import pytest

from semq.app import Client
from semq.console.pages.messages import SHOWN_MAX, _acts, _acts_by_name, _readable
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until
from tests.web.running import serving

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
        answer = await browser.post_form("/messages/act", id=sent.lk0, act="cancel", why="not wanted")
        assert answer.headers["location"].startswith("/messages/")

        assert [row["void"] for row in (await sender.request("msg.list", {"partner": "10008"}))["rows"]] == [True]
        viewer = await site.signed_in("viewer")
        page = (await viewer.get(f"/messages/{sent.lk0}")).text
        assert rows[0]["name"] in page
        assert "/messages/act" not in page


def test_every_act_has_a_button_and_every_button_an_act() -> None:
    rows = [{"side": "outbound", "held": held, "ss_status": "SS_INIT"} for held in (False, True)]
    assert {name for row in rows for name, _, _ in _acts(str, row, False)} == _acts_by_name(str).keys()


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
