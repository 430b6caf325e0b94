"""Requests to the address of a webhook: signature, answers, permitted addresses, pauses after failures."""

import asyncio
import socket
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from pydantic import SecretStr

from semq.clock import SystemClock
from semq.config.sections import WebhookSection
from semq.errors import SemqError
from semq.seal.webhook_signature import key_of, signature_headers
from semq.transport.spool import SpooledBody
from semq.webhooks import destination as module
from semq.webhooks.destination import OPEN_AFTER, Webhook, _is_public, _retry_after_s
from semq.webhooks.errors import AddressNotAllowed, NoAnswerFromWebhook, RefusedByWebhook, WebhookTrustUnreadable
from semq.webhooks.messages import WebhookRequest
from tests.service.companion.reported import ConnectedStates
from tests.webhooks.hook import Hook, ReceivedRequest, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# Addresses that are not public
DISGUISED = (
    "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fec0::1]", "[ff02::1]",
    "100.64.0.1", "224.0.0.1", "0.0.0.0", "[::]", "2130706433", "0x7f.1",
)  # fmt: skip
REQUEST = WebhookRequest("id 1", {"content-type": "text/plain"}, b"body")


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


def settings(url: str, **changes: object) -> WebhookSection:
    defaults = {"name": "erp", "url": url, "secret": SecretStr(SECRET), "allow_private": True, "timeout_s": 20.0}
    return WebhookSection.model_validate(defaults | changes)


@pytest.fixture
async def destination(hook: Hook) -> AsyncIterator[Webhook]:
    webhook = Webhook(settings(hook.url), SystemClock(), ConnectedStates().states)
    yield webhook
    await webhook.close()


async def test_a_request_is_signed_and_keeps_host_and_body(hook: Hook, destination: Webhook) -> None:
    await destination.post(REQUEST)
    [request] = hook.received
    assert (request.path, request.body) == ("/hook", b"body")
    assert request.headers["host"] == f"127.0.0.1:{hook.port}"
    signature = signature_headers(
        [key_of(SECRET)], REQUEST.id, int(request.headers["webhook-timestamp"]), (request.body,)
    )
    assert {name: request.headers[name] for name in signature} == signature


async def test_requests_are_counted_by_outcome(hook: Hook) -> None:
    reported = ConnectedStates()
    webhook = Webhook(settings(hook.url), SystemClock(), reported.states)
    statuses = [204, 200, 410, 500]
    hook.answer = lambda request: (statuses[len(hook.received) - 1], {})
    for _ in statuses:
        with suppress(SemqError):
            await webhook.post(REQUEST)
    await webhook.close()
    assert reported.counts == {"erp": {"acknowledged": 2, "refused": 1, "failed": 1}}


async def test_a_large_document_is_signed_and_sent_from_its_file(hook: Hook, destination: Webhook) -> None:
    """A repetition begins at the start of the file."""
    body = SpooledBody()
    for number in range(9):
        body.add(bytes([number]) * 300_000)
    request = REQUEST._replace(body=body, headers={"content-length": str(len(body))})
    hook.answer = lambda request: (503 if len(hook.received) == 1 else 204, {})
    with pytest.raises(NoAnswerFromWebhook):
        await destination.post(request)
    await destination.post(request)
    for received in hook.received:
        assert received.body == bytes(body)
        timestamp = int(received.headers["webhook-timestamp"])
        signature = signature_headers([key_of(SECRET)], REQUEST.id, timestamp, (received.body,))
        assert {name: received.headers[name] for name in signature} == signature
    assert len(hook.received) == 2


@pytest.mark.parametrize("status", [400, 410, 413, 422])
async def test_a_refusal_is_final(hook: Hook, destination: Webhook, status: int) -> None:
    hook.answer = lambda request: (status, {})
    with pytest.raises(RefusedByWebhook, match=f"answer {status}"):
        await destination.post(REQUEST)
    assert destination.failures == 0


async def test_a_request_that_http_cannot_express_is_refused_and_the_address_stays_in_use(
    hook: Hook, destination: Webhook
) -> None:
    for _ in range(OPEN_AFTER):
        with pytest.raises(RefusedByWebhook, match="Illegal header value"):
            await destination.post(REQUEST._replace(headers={"content-type": "text/plain "}))
    assert destination.failures == 0
    await destination.post(REQUEST)
    assert len(hook.received) == 1


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404, 405, 407, 408, 421, 425, 429, 500, 503])
async def test_redirects_wrong_credentials_temporary_errors_and_server_errors_are_no_answer(
    hook: Hook, destination: Webhook, status: int
) -> None:
    headers = {"location": hook.url, "retry-after": "0"}
    hook.answer = lambda request: (status, headers)
    with pytest.raises(NoAnswerFromWebhook, match=f"status {status}"):
        await destination.post(REQUEST)
    assert len(hook.received) == 1  # a redirect is not followed
    assert destination.failures == 1


async def test_a_request_to_an_application_that_hangs_ends_by_a_timeout(hook: Hook) -> None:
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(request: ReceivedRequest) -> tuple[int, dict[str, str]]:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()
        return 204, {}

    hook.answer = hang
    webhook = Webhook(settings(hook.url, timeout_s=0.2), SystemClock(), ConnectedStates().states)
    with pytest.raises(NoAnswerFromWebhook, match="no answer within"):
        await webhook.post(REQUEST)
    released.set()
    await webhook.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "169.254.169.254", "10.1.2.3", "[::1]", "[fe80::1]", *DISGUISED]
)
async def test_private_addresses_must_be_allowed(host: str) -> None:
    webhook = Webhook(settings(f"http://{host}:9/", allow_private=False), SystemClock(), ConnectedStates().states)
    with pytest.raises(AddressNotAllowed):
        await webhook.post(REQUEST)
    await webhook.close()


async def test_after_several_failures_requests_go_one_at_a_time(
    hook: Hook, destination: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S_MIN", 0.01)
    hook.answer = lambda request: (500, {})
    for _ in range(OPEN_AFTER):
        with pytest.raises(NoAnswerFromWebhook):
            await destination.post(REQUEST)
    under_way = most_under_way = 0

    def count(request: ReceivedRequest) -> tuple[int, dict[str, str]]:
        nonlocal under_way, most_under_way
        under_way += 1
        most_under_way = max(most_under_way, under_way)
        under_way -= 1
        return 204, {}

    hook.answer = count
    await asyncio.gather(*(destination.post(REQUEST) for _ in range(4)))
    assert destination.failures == 0
    assert most_under_way == 1


async def test_a_closed_port_is_reported() -> None:
    with serving() as stopped:
        url = stopped.url
    webhook = Webhook(settings(url), SystemClock(), ConnectedStates().states)
    with pytest.raises(NoAnswerFromWebhook):
        await webhook.post(REQUEST)
    await webhook.close()


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert _is_public(ip_address(address))


async def test_cookies_are_not_kept(hook: Hook, destination: Webhook) -> None:
    hook.answer = lambda request: (204, {"set-cookie": "session=1; Path=/"})
    await destination.post(REQUEST)
    await destination.post(REQUEST)
    assert "cookie" not in hook.received[1].headers


async def test_the_next_address_of_a_host_is_tried_if_the_first_refuses_connections(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two_addresses(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two_addresses)
    webhook = Webhook(settings(f"http://localhost:{hook.port}/hook"), SystemClock(), ConnectedStates().states)
    await webhook.post(REQUEST)
    await webhook.close()
    assert hook.received[0].headers["host"] == f"localhost:{hook.port}"


async def test_the_next_address_of_a_host_is_tried_if_the_first_never_answers(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener's queue is full, so that the system ignores further connections to it."""

    async def two_addresses(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

    with ExitStack() as sockets:
        silent = sockets.enter_context(socket.socket())
        silent.bind(("127.0.0.2", hook.port))
        silent.listen(0)
        for _ in range(3):
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.2", hook.port))
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two_addresses)
        webhook = Webhook(
            settings(f"http://localhost:{hook.port}/hook", timeout_s=4.0), SystemClock(), ConnectedStates().states
        )
        await webhook.post(REQUEST)
        await webhook.close()
    assert hook.received[0].headers["host"] == f"localhost:{hook.port}"


@pytest.mark.parametrize(("status", "accepted"), [(200, True), (500, False)])
async def test_the_status_decides_although_the_body_never_ends(status: int, accepted: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"body")
        writer.write(f"HTTP/1.1 {status} Well\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n".encode())
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    webhook = Webhook(settings(f"http://127.0.0.1:{port}/"), SystemClock(), ConnectedStates().states)
    with nullcontext() if accepted else pytest.raises(NoAnswerFromWebhook, match="status 500: x"):
        await webhook.post(REQUEST)
    await webhook.close()
    await ended.wait()
    server.close()
    await server.wait_closed()


async def test_requests_that_fail_together_lengthen_the_pause_once(hook: Hook) -> None:
    """Many requests during a short outage must not cause a long pause."""
    webhook = Webhook(settings(hook.url, concurrency=OPEN_AFTER), SystemClock(), ConnectedStates().states)
    together = threading.Barrier(OPEN_AFTER)

    def fail(request: ReceivedRequest) -> tuple[int, dict[str, str]]:
        together.wait()
        return 503, {}

    hook.answer = fail
    posts = [asyncio.create_task(webhook.post(REQUEST)) for _ in range(OPEN_AFTER)]
    assert {type(error) for error in await asyncio.gather(*posts, return_exceptions=True)} == {NoAnswerFromWebhook}
    assert (webhook.failures, webhook._pauses) == (OPEN_AFTER, 1)
    hook.answer = lambda request: (503, {})
    with pytest.raises(NoAnswerFromWebhook):
        await webhook.post(REQUEST)  # begins after those failures
    assert (webhook.failures, webhook._pauses) == (OPEN_AFTER + 1, 2)
    hook.answer = lambda request: (204, {})
    await webhook.post(REQUEST)
    assert (webhook.failures, webhook._pauses) == (0, 0)
    await webhook.close()


async def test_an_address_gets_no_requests_for_the_time_in_its_retry_after(hook: Hook) -> None:
    class Clock(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    clock = Clock()
    webhook = Webhook(settings(hook.url), clock, ConnectedStates().states)
    hook.answer = lambda request: (429, {"retry-after": "250"})
    with pytest.raises(NoAnswerFromWebhook):
        await webhook.post(REQUEST)
    hook.answer = lambda request: (204, {})
    waiting = asyncio.create_task(webhook.post(REQUEST))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await asyncio.shield(waiting)
    waiting.cancel()
    assert len(hook.received) == 1
    clock.ahead = 251
    await webhook.post(REQUEST)
    await webhook.close()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120", 120), ("", 0), ("nan", 0), ("-5", 0), ("soon", 0), ("1.2.3", 0), ("Sun, 22 Nov 2026 12:01:00 GMT", 60),
     ("Sun, 22 Nov 2020 12:01:00 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 -1200", 0)],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(text: str, seconds: float) -> None:
    assert _retry_after_s(text, datetime(2026, 11, 22, 12, 0, tzinfo=UTC)) == seconds


def test_authorities_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    for make in (lambda: None, lambda: bad.write_text("no certificate")):
        make()
        with pytest.raises(WebhookTrustUnreadable, match=r"ca\.pem"):
            Webhook(settings("https://example.org/", trust=bad), SystemClock(), ConnectedStates().states)


async def test_requests_are_signed_with_both_keys_while_the_application_changes_its_key(hook: Hook) -> None:
    following = "whsec_" + b64encode(bytes(32)).decode()
    webhook = Webhook(settings(hook.url, next_secret=SecretStr(following)), SystemClock(), ConnectedStates().states)
    await webhook.post(REQUEST)
    await webhook.close()
    [request] = hook.received
    timestamp = int(request.headers["webhook-timestamp"])
    signatures = [
        signature_headers([key_of(secret)], REQUEST.id, timestamp, (request.body,))["webhook-signature"]
        for secret in (SECRET, following)
    ]
    assert request.headers["webhook-signature"] == " ".join(signatures)


async def test_a_proxy_resolves_the_address_and_headers_of_the_configuration_are_sent(hook: Hook) -> None:
    more = {"proxy": SecretStr(f"http://127.0.0.1:{hook.port}"), "headers": {"X-Key": SecretStr("abc")}}
    webhook = Webhook(settings("http://erp.invalid/hook", **more), SystemClock(), ConnectedStates().states)
    await webhook.post(REQUEST)
    await webhook.close()
    [request] = hook.received
    assert (request.path, request.headers["host"]) == ("http://erp.invalid/hook", "erp.invalid")
    assert request.headers["x-key"] == "abc"
