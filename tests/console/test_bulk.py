"""Acts on many messages: those on which nothing was done are counted, shown and recorded."""

import re
from typing import Any

import pytest

from semq.app import Client
from semq.config.reach import url_of
from semq.store.audit import AuditFilter, lines
from tests.service.inprocess import InProcess, linked
from tests.waiting import until
from tests.web.running import Browser, Site, serving


async def page_after(site: Site, browser: Browser, prepared: str) -> tuple[str, list[dict[str, Any]]]:
    """Run a prepared act; return its page after the end, and the arguments of its audit lines, oldest first."""
    await browser.look(prepared)
    await browser.post_form(f"{prepared}/start", why="a test")

    async def ended() -> list[dict[str, Any]]:
        found = await site.web.database.read(lines, AuditFilter(act="bulk.", limit=10))
        return [line["arguments"] for line in reversed(found)] if len(found) == 2 else []

    recorded = await until(ended)
    return (await browser.get(prepared)).text, recorded


async def test_copies_that_may_not_be_refused_are_not_counted_as_refused(inprocess: InProcess) -> None:
    hub, node = await inprocess.linked_pair()
    async with Client(url_of(node.settings, node.port)) as client, serving(hub) as site:
        for ack2 in (False, False, True):
            await client.send("56001", b"x", ack2=ack2)

        async def are_stored() -> bool:
            counted = await site.web.client.request("held.count", {})
            return [row["rows"] for row in counted] == [3]

        await until(are_stored)
        browser = await site.signed_in("operator")
        prepared = await browser.post_form("/held/prepare", act="refuse-all", target="56001")
        page, recorded = await page_after(site, browser, prepared.headers["location"])
        assert "1 / 3" in page
        assert re.search(r"2 .{0,9}not refused: their senders keep no payload", page)
        assert recorded[1] == {"done": 1, "of": 3, "only_copy": 2}


async def test_the_page_and_the_audit_log_name_documents_by_key_and_short_name(inprocess: InProcess) -> None:
    _, node = await inprocess.linked_pair()
    async with serving(node) as site:
        lk0s = [(await site.web.client.send("10008", b"x", app_key=f"a/order//S-{number}")).lk0 for number in "12"]

        async def are_parked() -> list[dict[str, Any]]:
            rows = (await site.web.client.request("msg.list", {"side": "inbound"}))["rows"]
            return rows if len(rows) == 2 else []

        await until(are_parked)
        for lk0 in lk0s:
            await site.web.client.request("failed.park", {"id": lk0, "error": "x"})
        rows = (await site.web.client.request("failed.list", {}))["rows"]
        browser = await site.signed_in("operator")
        answer = await browser.post_form("/failed/prepare", act="requeue", ids=[str(row["id"]) for row in rows])
        prepared = answer.headers["location"]
        page = (await browser.get(prepared)).text
        names = [f"order S-{number}" for number in "12"]
        assert all(name in page and row["name"] in page for name, row in zip(names, reversed(rows), strict=True))
        assert not any(f">{row['id']}<" in page for row in rows)
        await page_after(site, browser, prepared)
        (line,) = [
            line
            for line in await site.web.database.read(lines, AuditFilter(act="failed.requeue", limit=10))
            if line["outcome"] == "asked"
        ]
        assert sorted(line["arguments"]["documents"]) == sorted(
            f"{name} {row['name']}" for name, row in zip(names, reversed(rows), strict=True)
        )


async def test_documents_that_the_hub_has_refused_are_submitted_again(inprocess: InProcess) -> None:
    hub, node = await inprocess.linked_pair()
    async with serving(node) as site, Client(url_of(hub.settings, hub.port)) as operator:
        lk0 = (await site.web.client.send("56001", b"x")).lk0
        await until(lambda: hub.engine.custody.rows_by_target.get("1.56001"))
        await operator.request("held.refuse", {"ids": [lk0], "why": "closed"})
        await linked(await inprocess.local("56001", hub.port))  # tells that the document had not arrived

        async def has_failed() -> Any:
            return (await site.web.client.request("failed.list", {}))["rows"]

        await until(has_failed)
        browser = await site.signed_in("operator")
        prepared = await browser.post_form("/failed/prepare", act="requeue", ids=[lk0])
        page, recorded = await page_after(site, browser, prepared.headers["location"])
        assert "1 / 1" in page
        assert recorded[1] == {"done": 1, "of": 1}
        program = await site.program("operator")
        answer = (await program.post("/failed/requeue", json={"ids": [lk0]})).json()["became"][lk0]
        assert (answer["state"], answer["lk0"] == lk0) == ("accepted", False)


@pytest.mark.parametrize("act", ["requeue", "remove"])
@pytest.mark.parametrize("ids", [["123456", "123457"], ["1.10008.1.1.3f.1", "1.10008.1.1.3f.2"]])
async def test_failed_documents_that_are_gone_are_not_counted_as_done(
    inprocess: InProcess, act: str, ids: list[str]
) -> None:
    _, node = await inprocess.linked_pair()
    async with serving(node) as site:
        browser = await site.signed_in("operator")
        prepared = await browser.post_form("/failed/prepare", act=act, ids=ids)
        page, recorded = await page_after(site, browser, prepared.headers["location"])
        assert "0 / 2" in page
        assert re.search(r"2 .{0,9}not found any more", page)
        assert recorded[1] == {"done": 0, "of": 2, "gone": 2}
