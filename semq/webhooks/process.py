"""``python -m semq.webhooks --config FILE``: serves the webhooks of one node until a signal, or until the node ends."""

from collections.abc import Callable
from functools import partial

import structlog

from semq.app import Client, LoginRefused
from semq.clock import SystemClock
from semq.config.sections import WebhookSection
from semq.config.settings import Settings
from semq.service.companion import sections as companion_sections
from semq.service.companion.process import Job
from semq.service.companion.section_states import SectionStates
from semq.service.companion.sections import PATIENCE_S, CompanionSection
from semq.webhooks.deliveries import Deliveries
from semq.webhooks.errors import WebhookTrustUnreadable

log = structlog.get_logger("semq.webhooks")

FATAL = (LoginRefused,)  # ends the program: no webhook can be served


def main(argv: list[str] | None = None) -> int:
    """Serve the webhooks of a configuration; return the exit status."""
    return companion_sections.main("semq.webhooks", "Serve the webhooks of a local node.", serve, argv)


async def serve(settings: Settings, url: str, stopped: Job, states: SectionStates) -> None:
    """Serve all webhooks until ``stopped`` returns. One that cannot be served is tried again, beside the others.

    Raises LoginRefused, and WebhookTrustUnreadable if no webhook can be served.
    """
    async with Client(url, patience_s=PATIENCE_S) as client:
        served: list[ServedWebhook] = []
        refused: list[WebhookTrustUnreadable] = []
        for webhook in settings.webhooks:
            one = ServedWebhook(webhook, client, states)
            served.append(one)
            try:
                one.open()
            except WebhookTrustUnreadable as error:
                refused.append(error)
        if refused and len(refused) == len(served):
            raise refused[0]
        log.info("webhooks_served", webhooks=[one.name for one in served if one.deliveries is not None])
        try:
            sections = [section for one in served for section in one.sections()]
            await companion_sections.until(stopped, sections, states, FATAL)
        finally:
            for one in served:
                await one.close()


class ServedWebhook:
    """One webhook: documents and events are sections of their own, and share its connections and its circuit."""

    def __init__(self, settings: WebhookSection, client: Client, states: SectionStates) -> None:
        self.name = settings.name
        self.deliveries: Deliveries | None = None
        self._settings = settings
        self._client = client
        self._states = states

    def open(self) -> Deliveries:
        """Read the authorities of the address, unless that is done. Raises WebhookTrustUnreadable."""
        if self.deliveries is None:
            self.deliveries = Deliveries(self._settings, self._client, SystemClock(), self._states)
        return self.deliveries

    def sections(self) -> list[CompanionSection]:
        """Return what is served, as configured."""
        wanted = {"documents": self._settings.documents, "events": bool(self._settings.events)}
        parts = [what for what, is_wanted in wanted.items() if is_wanted]
        return [CompanionSection(f"{self.name}: {what}", partial(self._run, what)) for what in parts]

    async def _run(self, what: str, works: Callable[[], None]) -> None:
        deliveries = self.open()
        await (deliveries.documents(works) if what == "documents" else deliveries.events(works))

    async def close(self) -> None:
        """End the connections to the address."""
        if self.deliveries is not None:
            await self.deliveries.close()
