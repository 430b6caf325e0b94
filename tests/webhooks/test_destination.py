"""One address: what it answers, what it may not be, and the circuit breaker."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from pydantic import SecretStr

from semq.clock import SystemClock
from semq.config.sections import Webhook
from semq.seal.webhook_signature import key_of, signed
from semq.webhooks.destination import OPEN_AFTER, Destination
from semq.webhooks.errors import AddressNotAllowed, NoAnswerFromWebhook, RefusedByWebhook
from semq.webhooks.messages import Request
from tests.webhooks.hook import Hook, Taken, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
REQUEST = Request("id 1", {"content-type": "text/plain"}, b"body")


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


def settings(url: str, **changes: object) -> Webhook:
    given = {"name": "erp", "url": url, "secret": SecretStr(SECRET), "allow_private": True, "timeout_s": 20.0}
    return Webhook.model_validate(given | changes)


@pytest.fixture
async def destination(hook: Hook) -> AsyncIterator[Destination]:
    made = Destination(settings(hook.url), SystemClock())
    yield made
    await made.close()


async def test_a_request_is_signed_and_keeps_host_and_body(hook: Hook, destination: Destination) -> None:
    await destination.post(REQUEST)
    [taken] = hook.taken
    assert (taken.path, taken.body) == ("/hook", b"body")
    assert taken.headers["host"] == f"127.0.0.1:{hook.port}"
    wanted = signed(key_of(SECRET), REQUEST.id, int(taken.headers["webhook-timestamp"]), taken.body)
    assert {name: taken.headers[name] for name in wanted} == wanted


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
async def test_a_refusal_is_final(hook: Hook, destination: Destination, status: int) -> None:
    hook.answer = lambda taken: (status, {})
    with pytest.raises(RefusedByWebhook, match=f"answer {status}"):
        await destination.post(REQUEST)
    assert destination.failures == 0


@pytest.mark.parametrize("status", [301, 307, 408, 425, 429, 500, 503])
async def test_other_answers_are_no_answer(hook: Hook, destination: Destination, status: int) -> None:
    elsewhere = {"location": hook.url, "retry-after": "0"}
    hook.answer = lambda taken: (status, elsewhere)
    with pytest.raises(NoAnswerFromWebhook, match=f"status {status}"):
        await destination.post(REQUEST)
    assert len(hook.taken) == 1  # a redirect is not followed
    assert destination.failures == 1


async def test_an_application_that_hangs_is_given_up(hook: Hook) -> None:
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(taken: Taken) -> tuple[int, dict[str, str]]:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()
        return 204, {}

    hook.answer = hang
    hasty = Destination(settings(hook.url, timeout_s=0.2), SystemClock())
    with pytest.raises(NoAnswerFromWebhook, match="no answer within"):
        await hasty.post(REQUEST)
    released.set()
    await hasty.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "10.1.2.3", "[::1]", "[fe80::1]"])
async def test_addresses_of_this_machine_and_network_need_a_word(host: str) -> None:
    strict = Destination(settings(f"http://{host}:9/", allow_private=False), SystemClock())
    with pytest.raises(AddressNotAllowed):
        await strict.post(REQUEST)
    await strict.close()


async def test_after_several_failures_requests_go_one_at_a_time(hook: Hook, destination: Destination) -> None:
    hook.answer = lambda taken: (500, {})
    for _ in range(OPEN_AFTER):
        with pytest.raises(NoAnswerFromWebhook):
            await destination.post(REQUEST)
    under_way = most = 0

    def count(taken: Taken) -> tuple[int, dict[str, str]]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        under_way -= 1
        return 204, {}

    hook.answer = count
    await asyncio.gather(*(destination.post(REQUEST) for _ in range(4)))
    assert destination.failures == 0
    assert most == 1


async def test_nobody_listens(hook: Hook) -> None:
    with serving() as gone:
        url = gone.url
    away = Destination(settings(url), SystemClock())
    with pytest.raises(NoAnswerFromWebhook):
        await away.post(REQUEST)
    await away.close()
