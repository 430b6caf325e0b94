"""The export of spans of a node."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from semq.clock import SystemClock
from semq.config import load
from semq.engine.document_spans import Span
from semq.service.telemetry import export
from semq.service.telemetry.export import SpanExport, export_of
from semq.trace_context import TraceParent
from tests.test_config import HUB_CONFIG
from tests.waiting import until
from tests.webhooks.hook import Hook, serving


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "RETRY_S_MIN", 0.01)
    monkeypatch.setattr(export, "RETRY_S_MAX", 0.02)


@asynccontextmanager
async def exporting(folder: Path, hook: Hook, **more: Any) -> AsyncIterator[SpanExport]:
    lines = [f"{name} = {json.dumps(value)}" for name, value in ({"every_s": 0.01} | more).items()]
    file = folder / "semq.toml"
    file.write_text("\n".join([HUB_CONFIG, "[telemetry]", f'endpoint = "{hook.url}"', *lines]))
    span_export = export_of(load(file, {}), SystemClock())
    assert span_export is not None
    try:
        yield span_export
    finally:
        await span_export.stop()


def span(number: int) -> Span:
    return Span("submit", TraceParent("ab" * 16, ""), f"{number:016x}", "", f"LK0-{number}", "1.2", 5, 6)


def received(hook: Hook) -> list[str]:
    """Return the documents of all spans that the collector received, in order."""
    scopes = [json.loads(taken.body)["resourceSpans"][0]["scopeSpans"][0] for taken in hook.received]
    return [
        attribute["value"]["stringValue"]
        for scope in scopes
        for exported in scope["spans"]
        for attribute in exported["attributes"]
        if attribute["key"] == "messaging.message.id"
    ]


def names(start: int, stop: int) -> list[str]:
    return [f"LK0-{number}" for number in range(start, stop)]


def test_without_the_section_there_is_no_export(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text(HUB_CONFIG)
    assert export_of(load(file, {}), SystemClock()) is None


async def test_spans_are_sent_in_batches_in_order(tmp_path: Path, hook: Hook) -> None:
    async with exporting(tmp_path, hook, batch_spans=4, every_s=3600.0) as spans:
        for number in range(9):
            spans.add(span(number))
        await until(lambda: spans.exported == 8)
        assert spans.status().waiting == 1
        assert spans._collector is not None
    assert received(hook) == names(0, 9)  # ``stop`` does not wait for every_s
    assert [taken.body.count(b'"spanId"') for taken in hook.received] == [4, 4, 1]
    assert (spans.exported, spans.dropped) == (9, 0)


async def test_a_node_without_waiting_spans_has_no_connection(tmp_path: Path, hook: Hook) -> None:
    async with exporting(tmp_path, hook) as spans:
        for number in range(3):
            spans.add(span(number))
            await until(lambda: not spans._queue and spans._running is None)
            assert spans._collector is None
    assert received(hook) == names(0, 3)


async def test_a_batch_is_repeated_until_the_collector_accepts_it(tmp_path: Path, hook: Hook) -> None:
    hook.answer = lambda taken: (200, {}) if len(hook.received) > 4 else (429, {"retry-after": "0"})
    async with exporting(tmp_path, hook) as spans:
        spans.add(span(1))
        await until(lambda: spans.failures >= 3)
        assert spans.status().failing_since is not None
        assert spans.status().last_error == "status 429: answer 429"
        await until(lambda: spans.exported == 1)
    assert (spans.failures, spans.failing_since, spans.last_error, spans.dropped) == (0, None, "", 0)
    assert received(hook) == names(1, 2) * 5


@pytest.mark.parametrize("status", [400, 307, 500])
async def test_a_refused_batch_is_dropped_and_counted(tmp_path: Path, hook: Hook, status: int) -> None:
    hook.answer = lambda taken: (status, {"location": "http://127.0.0.1/"})
    async with exporting(tmp_path, hook) as spans:
        spans.add(span(1))
        await until(lambda: spans.dropped == 1)
        assert (spans.exported, spans.failures) == (0, 1)
        hook.answer = lambda taken: (204, {})
        spans.add(span(2))
        await until(lambda: spans.exported == 1)
    assert spans.status().failures == 0
    assert len(hook.received) == 2


async def test_later_batches_are_sent_after_one_that_cannot_be_encoded(tmp_path: Path, hook: Hook) -> None:
    async with exporting(tmp_path, hook) as spans:
        spans.add(span(1)._replace(stage="unknown"))
        await until(lambda: spans.dropped == 1)
        spans.add(span(2))
        await until(lambda: spans.exported == 1)
    assert received(hook) == names(2, 3)


async def test_rejected_spans_are_counted(tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semq.service.telemetry.collector.rejected", lambda answer: (2, "too old"))
    async with exporting(tmp_path, hook) as spans:
        for number in range(3):
            spans.add(span(number))
        await until(lambda: spans.exported + spans.dropped == 3)
        assert spans.dropped == 2
        assert spans.last_error == "2 spans rejected: too old"


async def test_while_a_collector_hangs_the_queue_is_bounded(tmp_path: Path, hook: Hook) -> None:
    released = threading.Event()
    hook.answer = lambda taken: (released.wait(60), (204, {}))[1]
    async with exporting(tmp_path, hook, queue_spans=10, batch_spans=2, timeout_s=60.0) as spans:
        for number in range(500):
            spans.add(span(number))
        await until(lambda: hook.received)
        assert (spans.status().waiting, spans.dropped) == (10, 490)
        released.set()
        await until(lambda: spans.exported == 10)
    assert received(hook) == names(0, 10)


async def test_the_node_does_not_wait_for_a_collector_that_hangs(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "STOP_S", 0.01)
    released = threading.Event()
    hook.answer = lambda taken: (released.wait(60), (204, {}))[1]
    async with exporting(tmp_path, hook, timeout_s=3600.0) as spans:
        spans.add(span(1))
        await until(lambda: hook.received)
    released.set()
    assert spans.exported == 0


async def test_authorities_that_cannot_be_read_are_a_failure_of_the_export_only(tmp_path: Path, hook: Hook) -> None:
    async with exporting(tmp_path, hook, trust="none.pem") as spans:
        spans._section = spans._section.model_copy(update={"endpoint": hook.url.replace("http:", "https:")})
        spans.add(span(1))
        await until(lambda: spans.failures)
    assert spans.last_error == "telemetry.trust: No such file or directory"
