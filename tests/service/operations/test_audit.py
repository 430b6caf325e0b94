"""The audit log at a node."""

from typing import Any

import pytest

from semq.answers.acts import argument_texts
from semq.app import Client
from semq.app.errors import RefusedByNode
from semq.config.reach import url_of
from semq.service.operations.audit import recorded
from semq.store.audit import Line, add
from semq.umx_t.short_name import short_name
from tests.service.inprocess import InProcess
from tests.waiting import until
from tests.web.running import serving


def test_arguments_are_recorded_without_secrets_and_in_bounded_length() -> None:
    result = recorded(
        {"pem": "x" * 10, "token": b"ab", "ids": list(range(100)), "why": "y" * 1000, "deep": {"a": {"b": {"c": 1}}}}
    )
    assert (result["pem"], result["token"]) == ("(10 characters)", "(2 bytes)")
    assert result["ids"][-1] == "… (80 more)"
    assert len(result["why"]) <= 300
    assert result["deep"] == {"a": {"b": "…"}}


def test_arguments_are_shown_as_texts_without_what_the_log_does_not_have() -> None:
    arguments = recorded(
        {"why": "look", "documents": ["order 1 A", "order 2 B"], "pem": "x", "at_once": True, "body": b"y", "empty": ""}
    )
    texts = [("documents", "order 1 A; order 2 B"), ("why", "look"), ("at_once", "true")]
    assert argument_texts(arguments) == texts


async def test_acts_and_shown_payloads_over_amqp_are_in_the_same_log_as_acts_of_the_web_process(
    inprocess: InProcess,
) -> None:
    node = await inprocess.local("10008", 1)
    client = Client(url_of(node.settings, node.port))
    inprocess.stack.push_async_callback(client.close)
    async with serving(node) as site:
        sent = await client.send("56001", b"x", app_key="erp/order//1")
        await client.request("msg.hold", {"id": sent.lk0, "why": "look"})
        await client.request("msg.body", {"id": sent.lk0})
        with pytest.raises(RefusedByNode):
            await client.request("msg.cancel", {"id": "1.10008.1.1.tb_0031.99", "why": "x"})
        browser = await site.signed_in()
        prepared = await browser.post_form("/acts/prepare", ids=[sent.lk0], act="release", back="/")
        assert (await browser.post_form(f"{prepared.headers['location']}/start", why="done")).status_code == 303

        async def has_ended() -> Any:
            lines = await client.request("audit.list", {})
            return lines if lines[0]["act"] == "bulk.release" and lines[0]["outcome"] == "done" else None

        lines = await until(has_ended)
        result = [(row["act"], row["who"], row["via"], row["outcome"], row["read_payload"]) for row in reversed(lines)]
        assert result == [
            ("msg.hold", "guest", "amqp", "done", False),
            ("msg.body", "guest", "amqp", "done", True),
            ("msg.cancel", "guest", "amqp", "refused", False),
            ("bulk.release", "user1", "session", "asked", False),
            ("msg.release", "user1", "session", "asked", False),
            ("msg.release", "user1", "session", "done", False),
            ("bulk.release", "user1", "session", "done", False),
        ]
        assert lines[-1]["arguments"] == {"documents": [f"order 1 {short_name(sent.lk0)}"], "why": "look"}
        assert lines[-1]["peer"] == "127.0.0.1"
        page = (await browser.get("/audit?act=msg.hold")).text
        assert 'AMQP <span class="mono">127.0.0.1</span>' in page
        assert [row["act"] for row in await client.request("audit.list", {"payloads": True})] == ["msg.body"]


@pytest.mark.parametrize("act", ["requeue", "remove"])
async def test_acts_on_failed_documents_name_them_by_key_and_short_name(inprocess: InProcess, act: str) -> None:
    _, node = await inprocess.linked_pair()
    client = Client(url_of(node.settings, node.port))
    inprocess.stack.push_async_callback(client.close)
    await client.send("10008", b"x", app_key="erp/order//S-1")

    async def received() -> Any:
        return (await client.request("msg.list", {"side": "inbound"}))["rows"]

    await until(received)
    await client.request("failed.park", {"id": "S-1", "error": "x"})
    (row,) = (await client.request("failed.list", {}))["rows"]
    (line,) = await client.request("audit.list", {"act": "failed.park"})
    assert line["arguments"] == {"documents": [f"order S-1 {row['name']}"], "error": "x"}
    await client.request(f"failed.{act}", {"ids": [row["id"], 987654], "why": "done"})
    (line,) = await client.request("audit.list", {"act": f"failed.{act}"})
    assert line["arguments"] == {"documents": [f"order S-1 {row['name']}", "987654"], "why": "done"}


async def test_an_invented_line_number_in_a_request_hides_no_act(inprocess: InProcess) -> None:
    node = await inprocess.local("10008", 1)
    client = Client(url_of(node.settings, node.port))
    inprocess.stack.push_async_callback(client.close)
    line = Line(node.clock.wall(), "anna", "session", "", "job.run", {}, "asked")
    (asked,) = await node.store.execute(add, [line])
    done = Line(node.clock.wall(), "anna", "session", "", "job.run", {}, "done", "", asked)
    await node.store.execute(add, [done])
    for number in (asked, asked + 1, -1, 1 << 62):
        await client.request("job.run", {"name": "housekeeping"}, by="anna", asked=number)
    rows = await client.request("audit.list", {"act": "job.run"})
    assert [row["via"] for row in rows] == ["amqp"] * 4 + ["session"] * 2
    assert rows[0]["who"] == "anna via guest"
