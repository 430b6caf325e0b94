"""Events as server-sent events: only new events, or also those kept in a named queue."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from local_node.node import LocalNode
from semq.app.values import DocumentEvent
from semq.umx_t.app_key import AppKey
from semq.web.api.events import PATTERNS_MAX, event_text
from semq.web.api.sent_events import SentEvents
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked
from tests.waiting import PATIENCE_S, until
from tests.web.running import Site, serving


@pytest.fixture
async def site(node: LocalNode) -> Any:
    """Serve a node whose earlier documents cause no further event, because the hub has stored them."""
    async with serving(node, streams=2) as site:
        await until(lambda: has_stored_all(site))
        yield site


async def has_stored_all(site: Site) -> bool:
    rows = (await site.web.client.request("msg.list", {"side": "outbound"}))["rows"]
    return all(row["ss_status"] == "SS_ACK" for row in rows)


@asynccontextmanager
async def following(
    program: httpx.AsyncClient, last: str = "", **query: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Open a stream of events; ``last``: identifier of the last event that the client received."""
    headers = {"Last-Event-ID": last} if last else {}
    async with program.stream("GET", "/events", params=query, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read(answer)


async def read(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the fields of each event of a stream; data in JSON are decoded."""
    fields: dict[str, Any] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name in ("id", "event", "data"):
            fields[name] = value
        elif not line and fields:
            data = fields["data"]
            yield fields | {"data": json.loads(data) if data.startswith("{") else data}
            fields = {}


async def test_a_stream_without_a_queue_has_new_events(site: Site) -> None:
    program = await site.program("events")
    async with following(program, keys="stored.#") as events:
        sent = await site.web.client.send("56001", b"x", app_key="a/b//c")
        event = await anext(events)
        assert (event["event"], event["data"]["lk0"], event["data"]["app_key"]) == ("stored", sent.lk0, "a/b//c")
        assert event["id"] == f"{sent.lk0}/stored/{event['data']['attempt']}"


async def test_a_stream_ends_when_its_token_is_revoked(site: Site) -> None:
    program, admin = await site.program("events"), await site.program("admin")
    async with following(program) as events:
        assert (await admin.post("/token/revoke", json={"id": site.tokens[0].id})).status_code == 200
        site.web.tokens.read_again()
        await site.web.client.send("56001", b"x")
        assert await anext(events, None) is None


async def test_the_connection_of_an_open_stream_is_not_closed_as_idle(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    users = '\n[amqp.users]\nops = "swordfish swordfish"\nother = "swordfish swordfish"\n'
    node = await inprocess.start_node(
        inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=hub.port) + users)
    )
    await linked(node)
    monkeypatch.setattr("semq.web.api.logins.IDLE_S", -1.0)
    async with serving(node) as site:
        ops, other_user = [
            httpx.AsyncClient(
                base_url=f"{site.url}/api/v1", auth=(name, "swordfish swordfish"), timeout=60, verify=False
            )
            for name in ("ops", "other")
        ]
        async with ops, other_user, following(ops, keys="stored.#") as events:
            assert (await other_user.get("/who")).status_code == 200  # a new connection closes idle ones
            assert list(site.web.logins._logins) == ["ops", "other"]
            sent = await site.web.client.send("56001", b"x")
            assert (await anext(events))["data"]["lk0"] == sent.lk0


async def test_a_queue_keeps_events_without_a_consumer(site: Site) -> None:
    program = await site.program("events")
    async with following(program, queue="erp", keys="stored.#"):
        pass
    await until(lambda: not site.web.streams._open)
    sent = [(await site.web.client.send("56001", b"x")).lk0 for _ in range(3)]
    async with following(program, queue="erp", keys="stored.#") as events:
        assert [(await anext(events))["data"]["lk0"] for _ in sent] == sent


async def test_a_stream_continues_after_the_last_event_that_its_client_received(site: Site) -> None:
    """Events that were sent and not received are sent again, also if the web process has forgotten them."""
    program = await site.program("events")
    query = {"queue": "erp-continued", "keys": "stored.#"}
    async with following(program, **query) as events:
        sent = [(await site.web.client.send("56001", b"x")).lk0 for _ in range(4)]
        first_events = [await anext(events) for _ in sent]
    assert [event["data"]["lk0"] for event in first_events] == sent
    await until(lambda: not site.web.streams._open)
    sent.append((await site.web.client.send("56001", b"x")).lk0)
    async with following(program, last=first_events[1]["id"], **query) as events:
        assert [(await anext(events))["data"]["lk0"] for _ in sent[2:]] == sent[2:]
    await until(lambda: not site.web.streams._open)
    site.web.sent_events = SentEvents()
    async with following(program, last=first_events[3]["id"], **query) as events:
        assert [(await anext(events))["data"]["lk0"] for _ in sent[2:]] == sent[2:]  # repeated, and none is missing


async def test_a_stream_without_a_queue_reports_that_events_may_be_missing(site: Site) -> None:
    program = await site.program("events")
    async with following(program, last="1.10008.1/stored/0") as events:
        assert (await anext(events))["event"] == "gap"


def test_events_about_refused_documents_have_identifiers_of_their_own() -> None:
    """Refused documents have no locator and often no token. A second event with the same identifier would get lost."""
    at = datetime(2026, 11, 24, tzinfo=UTC)
    refused = [DocumentEvent("refused", "", "", AppKey(), at, id=f"1764000000000-{n}/refused/0") for n in (1, 2)]
    identifiers = {line for event in refused for line in event_text(event).splitlines() if line.startswith("id")}
    assert len(identifiers) == 2


async def test_streams_of_one_program_are_bounded(site: Site) -> None:
    program = await site.program("events")
    async with following(program), following(program):
        answer = await program.get("/events")
        assert (answer.status_code, answer.json()["code"]) == (429, "SEMQ-1410")
    await until(lambda: not site.web.streams._open)


async def test_a_program_whose_queue_is_being_made_stops_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await site.program("events"), await site.program("events")
    begun = asyncio.Event()

    async def check(call: Any, own_queues: str, queue: str) -> None:
        if queue.endswith(".slow"):
            begun.set()
            await asyncio.Event().wait()

    monkeypatch.setattr("semq.web.api.events._check_queues", check)
    slow = asyncio.create_task(first.get("/events", params={"queue": "slow"}))
    await begun.wait()
    async with asyncio.timeout(PATIENCE_S), following(second, queue="quick"):
        assert not slow.done()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)


async def test_queues_that_the_node_keeps_for_one_program_are_bounded(node: LocalNode) -> None:
    async with serving(node, streams=100, event_queues=2) as site:
        program, other_program = await site.program("events"), await site.program("events")
        opened = [program.send(program.build_request("GET", f"/events?queue=q{n}"), stream=True) for n in range(4)]
        answers = await asyncio.gather(*opened)
        assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429]
        names = [answer.url.params["queue"] for answer in answers if answer.status_code == 200]
        for answer in answers:
            await answer.aclose()
        for name in names:  # they stay, and can be used again
            async with following(program, queue=name):
                pass
        assert (await program.get("/events?queue=another")).json()["code"] == "SEMQ-1410"
        async with following(program), following(other_program, queue="q1"):
            pass


async def test_patterns_that_the_node_keeps_for_one_queue_are_bounded(node: LocalNode) -> None:
    async with serving(node, streams=100) as site:
        program = await site.program("events")
        for number in range(PATTERNS_MAX):
            async with following(program, queue="q", keys=f"delivered.{number}.#"):
                pass
        request = program.build_request("GET", "/events?queue=q&keys=failed.%23")
        refused = await program.send(request, stream=True)
        assert refused.status_code == 429
        assert "one pattern for all" in json.loads(await refused.aread())["title"]
        async with following(program, queue="q", keys="delivered.1.#"), following(program, queue="r", keys="failed.#"):
            pass
        rows = (await site.web.client.request("broker.bindings", {"name": "semq.events", "limit": 1000}))["rows"]
        assert len([row for row in rows if row["destination"].endswith(".q")]) == PATTERNS_MAX


@pytest.mark.parametrize("query", [{"keys": "x" * 300}, {"keys": "a\nb"}, {"queue": "a.b"}, {"queue": ""}])
async def test_invalid_patterns_and_names_of_queues_are_refused(site: Site, query: dict[str, str]) -> None:
    program = await site.program("events")
    assert (await program.get("/events", params=query)).status_code == 400
