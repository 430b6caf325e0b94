"""``python -m semq.webhooks --config FILE``: serve the webhooks of one node until a signal, or until the node ends."""

from collections.abc import Callable

import structlog

from semq.app import Client, LoginRefused
from semq.clock import SystemClock
from semq.config.sections import WebhookSection
from semq.config.settings import Settings
from semq.service.companion import sections as companion_sections
from semq.service.companion.process import AsyncAction
from semq.service.companion.section_states import SectionStates
from semq.service.companion.sections import PATIENCE_S, CompanionSection
from semq.webhooks.deliveries import Deliveries
from semq.webhooks.errors import WebhookTrustUnreadable

log = structlog.get_logger("semq.webhooks")

FATAL = (LoginRefused,)  # errors that concern all webhooks


def main(argv: list[str] | None = None) -> int:
    """Serve the webhooks of a configuration; return the exit status."""
    return companion_sections.main("semq.webhooks", "Serve the webhooks of a local node.", serve, argv)


async def serve(settings: Settings, url: str, wait_for_stop: AsyncAction, states: SectionStates) -> None:
    """Serve all webhooks until ``wait_for_stop`` returns. A webhook that cannot be served is tried again later.

    Raises LoginRefused, and WebhookTrustUnreadable if no webhook can be served.
    """
    async with Client(url, patience_s=PATIENCE_S) as client:
        webhooks = [ServedWebhook(section, client, states) for section in settings.webhooks]
        refused: list[WebhookTrustUnreadable] = []
        for webhook in webhooks:
            try:
                webhook.open()
            except WebhookTrustUnreadable as error:
                refused.append(error)
        if refused and len(refused) == len(webhooks):
            raise refused[0]
        log.info("webhooks_served", webhooks=[webhook.name for webhook in webhooks if webhook.deliveries is not None])
        try:
            sections = [section for webhook in webhooks for section in webhook.sections()]
            await companion_sections.run_until_stop(wait_for_stop, sections, states, FATAL)
        finally:
            for webhook in webhooks:
                await webhook.close()


class ServedWebhook:
    """One webhook. Its documents and its events are sections that share a circuit breaker."""

    def __init__(self, settings: WebhookSection, client: Client, states: SectionStates) -> None:
        self.name = settings.name
        self.deliveries: Deliveries | None = None
        self._settings = settings
        self._client = client
        self._states = states

    def open(self) -> Deliveries:
        """Return the deliveries; the first call creates them. Raises WebhookTrustUnreadable."""
        if self.deliveries is None:
            self.deliveries = Deliveries(self._settings, self._client, SystemClock(), self._states)
        return self.deliveries

    def sections(self) -> list[CompanionSection]:
        sections = []
        if self._settings.documents:
            sections.append(CompanionSection(f"{self.name}: documents", self._post_documents))
        if self._settings.events:
            sections.append(CompanionSection(f"{self.name}: events", self._post_events))
        return sections

    async def _post_documents(self, on_success: Callable[[], None]) -> None:
        await self.open().post_documents(on_success)

    async def _post_events(self, on_success: Callable[[], None]) -> None:
        await self.open().post_events(on_success)

    async def close(self) -> None:
        if self.deliveries is not None:
            await self.deliveries.close()
