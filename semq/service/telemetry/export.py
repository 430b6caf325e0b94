"""The export of a node's spans: a bounded queue, sent in batches, and its state for ``node.status``.

If the collector cannot accept a batch now (no connection, no answer, 429, 502, 503, 504), the batch is sent again with
growing pauses, or after the pause that the collector requests. After any other refusal the batch is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

import structlog

from semq import __version__
from semq.answers.status import TelemetryStatus
from semq.clock import Clock
from semq.config.settings import Settings
from semq.config.telemetry import TelemetrySection
from semq.engine.document_spans import DocumentSpans, Span
from semq.umx_t import retry

if TYPE_CHECKING:
    from semq.service.telemetry.collector import CollectorAnswer, OtlpCollector

log = structlog.get_logger("semq.telemetry")

RETRY_S_MIN, RETRY_S_MAX = 1.0, 60.0
RETRY_AFTER_S_MAX = 300.0  # longest pause that is accepted from Retry-After
STOP_S = 2.0  # time for the last spans, when the node stops


class SpanExport:
    """The waiting spans of one node."""

    def __init__(self, section: TelemetrySection, settings: Settings, clock: Clock) -> None:
        self._section = section
        self._clock = clock
        self._resource = _resource(section, settings)
        self._queue: deque[Span] = deque()
        self._collector: OtlpCollector | None = None
        self._running: asyncio.Task[None] | None = None
        self._batch_ready = asyncio.Event()  # enough spans for a batch wait, or the node stops
        self._is_stopping = False
        self.exported = 0
        self.dropped = 0
        self.failures = 0  #: failed requests in a row
        self.failing_since: int | None = None  #: milliseconds since 1970 UTC
        self.last_error = ""
        self.documents = DocumentSpans(section.sample_ratio, self._now_ms, self.add)

    def add(self, span: Span) -> None:
        if len(self._queue) >= self._section.queue_spans:
            self.dropped += 1
            return
        self._queue.append(span)
        if len(self._queue) >= self._section.batch_spans:
            self._batch_ready.set()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="telemetry")

    def status(self) -> TelemetryStatus:
        return TelemetryStatus(
            exported=self.exported,
            dropped=self.dropped,
            forgotten=self.documents.forgotten,
            waiting=len(self._queue),
            failures=self.failures,
            failing_since=self.failing_since,
            last_error=self.last_error,
        )

    async def stop(self) -> None:
        """Send the waiting spans within STOP_S, and end; end at once if the last request has failed."""
        self._is_stopping = True
        self._batch_ready.set()
        running = self._running
        if running is not None:
            await asyncio.wait([running], timeout=0 if self.failures else STOP_S)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if self._queue:
            log.warning("spans_dropped", spans=len(self._queue), text="the collector did not answer in time")
        await self._disconnect()

    async def _disconnect(self) -> None:
        collector, self._collector = self._collector, None
        if collector is not None:
            await collector.close()

    def _now_ms(self) -> int:
        return int(self._clock.wall().timestamp() * 1000)

    async def _run(self) -> None:
        try:
            while self._queue:
                await self._wait_for_batch()
                batch = [*islice(self._queue, self._section.batch_spans)]
                try:
                    await self._send(batch)
                except Exception:
                    log.exception("spans_not_exported")
                    self._remove(batch, len(batch))
                if not self._queue:
                    await self._disconnect()  # many nodes of one process would keep many connections
        finally:
            self._running = None  # the next span starts a new task

    async def _wait_for_batch(self) -> None:
        self._batch_ready.clear()
        if len(self._queue) < self._section.batch_spans and not self._is_stopping:
            try:
                async with asyncio.timeout(self._section.every_s):
                    await self._batch_ready.wait()
            except TimeoutError:
                pass

    async def _send(self, batch: list[Span]) -> None:
        """Send a batch until the collector accepts or refuses it."""
        body = await asyncio.to_thread(self._encoded, batch)
        answer = await self._post(body)
        while answer.may_repeat:
            self._note_result(answer.fault)
            pause_s = retry.backoff(self.failures, RETRY_S_MIN, RETRY_S_MAX, self._clock.random())
            await asyncio.sleep(max(pause_s, min(answer.pause_s, RETRY_AFTER_S_MAX)))
            answer = await self._post(body)
        self._remove(batch, min(max(answer.rejected, 0), len(batch)) if answer.is_accepted else len(batch))
        self._note_result(answer.fault)

    def _remove(self, batch: list[Span], dropped: int) -> None:
        for _ in batch:
            self._queue.popleft()
        self.exported += len(batch) - dropped
        self.dropped += dropped

    def _encoded(self, batch: list[Span]) -> bytes:
        from semq.service.telemetry.otlp import encoded

        return encoded(batch, self._resource)

    async def _post(self, body: bytes) -> "CollectorAnswer":
        from semq.service.telemetry.collector import CollectorAnswer, OtlpCollector

        if self._collector is None:
            try:
                self._collector = OtlpCollector(self._section, self._clock)
            except OSError as error:
                return CollectorAnswer(fault=f"telemetry.trust: {error.strerror or error}", may_repeat=True)
        return await self._collector.post(body)

    def _note_result(self, fault: str) -> None:
        """Note the result of a request; an empty ``fault`` is a success."""
        if not fault:
            if self.failures:
                log.info("telemetry_works", failures=self.failures)
            self.failures, self.failing_since, self.last_error = 0, None, ""
            return
        self.failures += 1
        self.last_error = fault
        if self.failing_since is None:  # once, not for each attempt
            self.failing_since = self._now_ms()
            log.warning("telemetry_failed", error=fault, endpoint=self._section.endpoint.partition("?")[0])


def export_of(settings: Settings, clock: Clock) -> SpanExport | None:
    """Return the export of a node; None without [telemetry]."""
    section = settings.telemetry
    return SpanExport(section, settings, clock) if section is not None else None


def _resource(section: TelemetrySection, settings: Settings) -> Mapping[str, str | int]:
    """Return the attributes of the node (the resource of OTLP)."""
    node = settings.node
    return {
        "service.name": section.service_name or f"semq-{node.id}",
        "service.instance.id": f"{settings.address}/{node.semq_id}.{node.semq_db_id}",
        "service.version": __version__,
        "semq.node": str(settings.address),
        "semq.kind": node.kind,
        "semq.id": node.semq_id,
        "semq.db_id": node.semq_db_id,
    }
