"""Delivery of documents and events to the address of one webhook.

A document that the address refuses is set aside (PARKED) with the answer as the reason. Refusals that concern address
or credentials (401, 403, 404 …), and any refusal after several in a row, count as failures. A document that has failed
``attempts`` times is set aside, too, if its failure concerns only this document: if the answer is an error such as 500,
or if the address has answered ``attempts`` other requests meanwhile. While the application is unavailable (no answer,
429, 502, 503, 504, Retry-After), documents wait.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from semq.app import AlreadyGone, Client, DocumentEvent
from semq.app.document_tasks import DocumentTasks, EventTasks, park
from semq.clock import Clock
from semq.config.sections import WebhookSection
from semq.errors import SemqError
from semq.service.companion.section_states import SectionStates
from semq.service.companion.sections import QUEUE_EXPIRES_S
from semq.umx_t import retry
from semq.webhooks.destination import Webhook
from semq.webhooks.errors import NoAnswerFromWebhook, RefusedByWebhook
from semq.webhooks.messages import of_document, of_event

log = structlog.get_logger("semq.webhooks")

PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 120.0  # between attempts for one document or event


class Deliveries:
    """The documents and events of one webhook."""

    def __init__(self, settings: WebhookSection, client: Client, clock: Clock, states: SectionStates) -> None:
        """Read the authorities of the address. Raises WebhookTrustUnreadable."""
        self._settings = settings
        self._client = client
        self._clock = clock
        self._states = states
        self._destination = Webhook(settings, clock, states)
        self._tasks = DocumentTasks(self._deliver)

    async def post_documents(self, on_success: Callable[[], None]) -> None:
        """Post documents until cancelled; ``on_success`` is called when the inbox is open.

        Raises NodeUnreachable, LoginRefused, RefusedByNode.
        """
        async with self._client.receive(self._settings.user, prefetch=self._settings.concurrency) as documents:
            on_success()
            await self._tasks.run(documents)

    async def post_events(self, on_success: Callable[[], None]) -> None:
        """Post events until cancelled, those about one document one after the other.

        ``on_success`` is called when the queue is open.

        Raises NodeUnreachable, LoginRefused, RefusedByNode.
        """
        queue = f"semq.webhooks.{self._settings.name}"
        async with self._client.events(
            "#", queue=queue, expires_s=QUEUE_EXPIRES_S, prefetch=self._settings.concurrency, settles=True
        ) as events:
            on_success()
            await EventTasks(self._post_event).run(events)

    async def _post_event(self, event: DocumentEvent) -> None:
        """Post an event until the address accepts it.

        The event is dropped if the address refuses it, or after ``attempts`` or more failures if the last one is an
        error of the application, or if the address has answered as many other requests meanwhile.
        """
        if event.kind not in self._settings.events:
            return
        request, attempt, successes_before = of_event(event), 0, self._destination.successes
        while True:
            attempt += 1
            try:
                await self._destination.post(request)
                return
            except SemqError as error:
                if isinstance(error, RefusedByWebhook) or self._must_give_up(
                    attempt, self._destination.successes - successes_before, error
                ):
                    self._states.count(self._settings.name, "dropped")
                    log.error("event_dropped", webhook=self._settings.name, id=request.id, error=str(error))
                    return
                await self._wait(attempt, request.id, error)

    async def _deliver(self, lk0: str) -> None:
        """Post a document until the address accepts it, it is set aside, or the connection of its delivery ends."""
        request, attempt = of_document(self._tasks.last(lk0)), 0
        successes_before = self._destination.successes
        while not self._tasks.last(lk0).is_gone:
            attempt += 1
            try:
                await self._destination.post(request)
                await self._tasks.last(lk0).ack()
                return
            except AlreadyGone:
                return  # the node delivers the document again
            except RefusedByWebhook as error:
                await self._set_aside(lk0, error)
                return
            except SemqError as error:
                if self._must_give_up(attempt, self._destination.successes - successes_before, error):
                    await self._set_aside(lk0, error)
                    return
                await self._wait(attempt, lk0, error)

    def _must_give_up(self, attempts: int, successes: int, error: SemqError) -> bool:
        """Whether to give up. ``successes``: answers to other requests since the first attempt."""
        attempts_max = self._settings.attempts
        is_about_request = isinstance(error, NoAnswerFromWebhook) and error.is_about_request
        return attempts >= attempts_max and (successes >= attempts_max or is_about_request)

    async def _wait(self, attempt: int, message_id: str, error: SemqError) -> None:
        pause_s = retry.backoff(attempt, PAUSE_S_MIN, PAUSE_S_MAX, self._clock.random())
        facts = {"webhook": self._settings.name, "id": message_id, "attempt": attempt, "again_in_s": round(pause_s, 1)}
        log.warning("webhook_failed", error=error.advice(), **facts)
        await asyncio.sleep(pause_s)

    async def _set_aside(self, lk0: str, error: SemqError) -> None:
        # The error's own remedy is about a document that still waits.
        error = error.with_remedy(RefusedByWebhook.remedy)
        self._states.count(self._settings.name, "set_aside")
        log.error("document_set_aside", webhook=self._settings.name, document=lk0, error=str(error))
        with suppress(AlreadyGone):
            await park(self._client, self._tasks.last(lk0), error.advice())

    async def close(self) -> None:
        await self._destination.close()
