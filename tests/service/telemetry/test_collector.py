"""Requests to a collector that accepts, refuses, redirects, hangs or does not run."""

import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from semq.clock import SystemClock
from semq.config.telemetry import TelemetrySection
from semq.installation.configuration import free_ports
from semq.service.telemetry.collector import CollectorAnswer, OtlpCollector
from tests.transport.test_listener import certificate
from tests.webhooks.hook import Hook, serving


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


async def answer_to(hook: Hook, body: bytes = b"{}", **settings: Any) -> CollectorAnswer:
    collector = OtlpCollector(TelemetrySection(endpoint=hook.url, **settings), SystemClock())
    try:
        return await collector.post(body)
    finally:
        await collector.close()


async def test_a_request_has_the_headers_of_the_configuration(hook: Hook) -> None:
    answer = await answer_to(hook, b"spans", headers={"Authorization": SecretStr("Bearer x")})
    assert answer == CollectorAnswer(is_accepted=True)
    [taken] = hook.received
    assert (taken.path, taken.body) == ("/hook", b"spans")
    assert (taken.headers["authorization"], taken.headers["content-type"]) == ("Bearer x", "application/json")


@pytest.mark.parametrize(
    ("status", "may_repeat"),
    [*((status, False) for status in (400, 401, 404, 413, 500)), *((status, True) for status in (429, 502, 503, 504))],
)
async def test_a_request_may_be_repeated_after_a_retriable_status_only(
    hook: Hook, status: int, may_repeat: bool
) -> None:
    hook.answer = lambda taken: (status, {"retry-after": "17"})
    assert await answer_to(hook) == CollectorAnswer(False, f"status {status}: answer {status}", may_repeat, 17.0)


async def test_redirects_are_not_followed(hook: Hook) -> None:
    hook.answer = lambda taken: (307, {"location": hook.url + "/elsewhere", "set-cookie": "a=b"})
    answer = await answer_to(hook)
    assert (answer.is_accepted, answer.may_repeat, len(hook.received)) == (False, False, 1)


async def test_a_request_to_a_collector_that_hangs_ends_after_the_time_limit(hook: Hook) -> None:
    released = threading.Event()
    hook.answer = lambda taken: (released.wait(60), (200, {}))[1]
    try:
        answer = await answer_to(hook, timeout_s=0.2)
    finally:
        released.set()
    assert (answer.may_repeat, answer.is_accepted) == (True, False)
    assert "within 0.2 s" in answer.fault or "Timeout" in answer.fault


async def test_a_request_to_a_collector_that_does_not_run_may_be_repeated(hook: Hook) -> None:
    [hook.port] = free_ports(1)
    answer = await answer_to(hook)
    assert answer.may_repeat
    assert answer.fault.startswith("ConnectError")


async def test_only_a_collector_of_the_given_authority_gets_spans(tmp_path: Path) -> None:
    own = certificate(tmp_path, "collector", None)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own)
    with serving(tls) as hook:
        endpoint = hook.url.replace("http:", "https:")
        for trust, is_accepted in ((own, True), (certificate(tmp_path, "other", None), False)):
            collector = OtlpCollector(TelemetrySection(endpoint=endpoint, trust=trust), SystemClock())
            answer = await collector.post(b"{}")
            await collector.close()
            assert answer.is_accepted is is_accepted, answer
    assert len(hook.received) == 1


def test_authorities_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    section = TelemetrySection(endpoint="https://127.0.0.1/v1/traces", trust=tmp_path / "none.pem")
    with pytest.raises(FileNotFoundError):
        OtlpCollector(section, SystemClock())
