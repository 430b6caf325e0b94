"""The page of a document to a group: its members with their outcomes, and the cancellation for all members."""

from semq.app import Client
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

        assert [row["void"] for row in (await sender.request("msg.search", {"partner": "10008"}))["rows"]] == [True]
        viewer = await site.signed_in("viewer")
        page = (await viewer.get(f"/messages/{sent.lk0}")).text
        assert rows[0]["name"] in page
        assert "/messages/act" not in page
