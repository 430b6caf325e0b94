"""Deliveries to the address of a webhook."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from semq.app import Document, DocumentEvent, NodeUnreachable
from semq.clock import SystemClock
from semq.config.sections import WebhookSection
from semq.umx_t.app_key import AppKey
from semq.webhooks.deliveries import Deliveries
from tests.service.companion.reported import ConnectedStates
from tests.waiting import until
from tests.webhooks.hook import Hook, ReceivedRequest, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class FakeWebhookChannel:
    """The channel of a document."""

    def __init__(self) -> None:
        self.is_open = True
        self.settled: list[str] = []

    def ack(self, tag: int) -> None:
        self.settled.append("ack")

    def reject(self, tag: int, requeue: bool) -> None:
        self.settled.append("reject")


class FakeWebhookClient:
    """An inbox and a queue of events, filled by the test."""

    def __init__(self) -> None:
        self.documents: asyncio.Queue[Document] = asyncio.Queue()
        self.pending_events: asyncio.Queue[DocumentEvent] = asyncio.Queue()
        self.parked: list[str] = []
        self.is_reachable = True

    def deliver(self, lk0: str, body: bytes) -> FakeWebhookChannel:
        channel: Any = FakeWebhookChannel()
        self.documents.put_nowait(Document(lk0, "1.10008", "1.56001", AppKey(), body, "", _channel=channel))
        return channel  # type: ignore[no-any-return]

    @asynccontextmanager
    async def receive(self, user: str, prefetch: int) -> AsyncIterator[AsyncIterator[Document]]:
        async def arriving() -> AsyncIterator[Document]:
            while True:
                yield await self.documents.get()

        yield arriving()

    @asynccontextmanager
    async def events(
        self, keys: str, queue: str, expires_s: int, **_: Any
    ) -> AsyncIterator[AsyncIterator[DocumentEvent]]:
        async def arriving() -> AsyncIterator[DocumentEvent]:
            while True:
                yield await self.pending_events.get()

        yield arriving()

    async def request(self, operation: str, arguments: Mapping[str, Any]) -> None:
        if not self.is_reachable:
            raise NodeUnreachable(address="here")
        assert operation == "failed.park"
        assert "semq failed requeue" in arguments["error"]
        self.parked.append(arguments["id"])


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


@pytest.fixture
def reported() -> ConnectedStates:
    return ConnectedStates()


@pytest.fixture
async def inbox(
    hook: Hook, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FakeWebhookClient]:
    monkeypatch.setattr("semq.webhooks.deliveries.PAUSE_S_MAX", 0.01)
    monkeypatch.setattr("semq.webhooks.destination.PAUSE_S_MAX", 0.01)
    section = {"name": "erp", "url": hook.url, "secret": SecretStr(SECRET), "allow_private": True, "attempts": 3}
    section["events"] = ["failed"]
    inbox: Any = FakeWebhookClient()
    deliveries = Deliveries(WebhookSection.model_validate(section), inbox, SystemClock(), reported.states)
    tasks = [asyncio.create_task(run(lambda: None)) for run in (deliveries.post_documents, deliveries.post_events)]
    yield inbox
    for task in tasks:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await deliveries.close()


def answer_with(status: int) -> Callable[[ReceivedRequest], tuple[int, dict[str, str]]]:
    return lambda request: (status, {})


async def test_permanently_failing_documents_are_set_aside(hook: Hook, inbox: FakeWebhookClient) -> None:
    hook.answer = answer_with(500)
    channels = [inbox.deliver(str(number), b"bad") for number in range(8)]
    await until(lambda: len(inbox.parked) == 8)
    await until(lambda: all(channel.settled == ["reject"] for channel in channels))
    assert len(hook.received) == 3 * 8


@pytest.mark.parametrize("status", [401, 403, 404, 407, 429, 502, 503, 504])
async def test_nothing_is_parked_while_an_application_is_away_or_does_not_know_the_sender(
    hook: Hook, inbox: FakeWebhookClient, reported: ConnectedStates, status: int
) -> None:
    hook.answer = answer_with(status)
    channel = inbox.deliver("1", b"body")
    await until(lambda: len(hook.received) > 6)
    assert reported.failing["erp"].is_paused
    assert f"status {status}" in reported.failing["erp"].error
    hook.answer = answer_with(204)
    await until(lambda: channel.settled == ["ack"])
    assert not inbox.parked


async def test_an_application_that_refuses_everything_gets_few_documents(
    hook: Hook, inbox: FakeWebhookClient, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.webhooks.destination.PAUSE_S_MAX", 0.2)
    hook.answer = answer_with(400)
    channels = [inbox.deliver(str(number), b"body") for number in range(30)]
    await until(lambda: "erp" in reported.failing)
    assert reported.failing["erp"].is_paused
    assert "status 400" in reported.failing["erp"].error
    hook.answer = answer_with(204)
    await until(lambda: all(channel.settled for channel in channels))
    assert 5 <= len(inbox.parked) < 12
    assert reported.failing == {}
    hook.answer = answer_with(400)  # one of them is refused at once again
    channel = inbox.deliver("one", b"bad")
    await until(lambda: channel.settled == ["reject"])
    assert reported.failing == {}


async def test_a_document_whose_address_is_refused_for_it_alone_is_set_aside(
    hook: Hook, inbox: FakeWebhookClient
) -> None:
    hook.answer = lambda request: (404 if request.body == b"bad" else 204, {})
    bad = inbox.deliver("bad", b"bad")
    await until(lambda: len(hook.received) > 3)
    for number in range(4):
        inbox.deliver(str(number), b"good")
    await until(lambda: bad.settled == ["reject"])
    assert inbox.parked == ["bad"]


async def test_a_refused_document_is_set_aside_although_its_reason_cannot_be_stored(
    hook: Hook, inbox: FakeWebhookClient
) -> None:
    hook.answer = answer_with(422)
    inbox.is_reachable = False
    channel = inbox.deliver("1", b"body")
    await until(lambda: channel.settled == ["reject"])


async def test_a_document_that_is_delivered_again_is_acknowledged_once(hook: Hook, inbox: FakeWebhookClient) -> None:
    hook.answer = answer_with(503)
    first = inbox.deliver("1", b"body")
    await until(lambda: hook.received)
    second = inbox.deliver("1", b"body")
    await until(inbox.documents.empty)
    first.is_open = False
    hook.answer = answer_with(204)
    await until(lambda: second.settled == ["ack"])
    assert first.settled == []


async def test_a_document_that_is_gone_is_not_posted_again(hook: Hook, inbox: FakeWebhookClient) -> None:
    hook.answer = answer_with(503)
    gone = inbox.deliver("1", b"gone")
    await until(lambda: hook.received)
    gone.is_open = False
    posts_before = len(hook.received)
    channel = inbox.deliver("2", b"other")
    await until(lambda: sum(request.body == b"other" for request in hook.received) > 3)
    hook.answer = answer_with(204)
    await until(lambda: channel.settled == ["ack"])
    assert sum(request.body == b"gone" for request in hook.received) <= posts_before + 1


@pytest.mark.parametrize("status", [500, 404])
async def test_an_event_that_fails_permanently_does_not_delay_others_and_is_dropped(
    hook: Hook, inbox: FakeWebhookClient, reported: ConnectedStates, status: int
) -> None:
    hook.answer = lambda request: (status if b"poison" in request.body else 204, {})
    for lk0 in ("poison", "good 1", "good 2", "good 3", "good 4"):
        inbox.pending_events.put_nowait(
            DocumentEvent("failed", lk0, "1.56001", AppKey(), datetime(2026, 11, 22, tzinfo=UTC))
        )
    await until(lambda: sum(b"good" in request.body for request in hook.received) == 4)
    await until(lambda: reported.counts.get("erp", {}).get("dropped") == 1)
    assert sum(b"poison" in request.body for request in hook.received) >= 3


async def test_events_about_one_document_are_posted_in_their_order(hook: Hook, inbox: FakeWebhookClient) -> None:
    hook.answer = lambda request: (503 if len(hook.received) < 3 else 204, {})
    for attempt in (1, 2, 3):
        at = datetime(2026, 11, 22, tzinfo=UTC)
        inbox.pending_events.put_nowait(DocumentEvent("failed", "one", "1.56001", AppKey(), at, attempt))
    await until(lambda: len(hook.received) == 5)
    attempts = [int(json.loads(request.body)["data"]["attempt"]) for request in hook.received]
    assert attempts == [1, 1, 1, 2, 3]


async def test_the_log_shows_no_address(hook: Hook, inbox: FakeWebhookClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        channel = inbox.deliver("1", b"body")
        await until(lambda: channel.settled == ["ack"])
    assert str(hook.port) not in caplog.text


async def test_an_address_that_fails_is_reported_until_it_answers(
    hook: Hook, inbox: FakeWebhookClient, reported: ConnectedStates
) -> None:
    hook.answer = answer_with(503)
    channel = inbox.deliver("1", b"body")
    await until(lambda: reported.failing["erp"].is_paused if "erp" in reported.failing else False)
    failing = reported.failing["erp"]
    assert failing.failures >= 5
    assert "status 503: answer 503" in failing.error
    hook.answer = answer_with(204)
    await until(lambda: channel.settled == ["ack"])
    assert reported.failing == {}


async def test_an_address_that_refuses_a_document_is_not_reported_as_failing(
    hook: Hook, inbox: FakeWebhookClient, reported: ConnectedStates
) -> None:
    hook.answer = answer_with(422)
    channel = inbox.deliver("1", b"body")
    await until(lambda: channel.settled == ["reject"])
    assert reported.lines == []
