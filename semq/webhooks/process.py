"""``python -m semq.webhooks --config FILE``: serves the webhooks of one node until a signal, or until the node ends."""

import structlog

from semq.app import Client
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.service import companion_process
from semq.service.companion_process import Job
from semq.webhooks.deliveries import Deliveries

log = structlog.get_logger("semq.webhooks")

PATIENCE_S = 60.0


def main(argv: list[str] | None = None) -> int:
    """Serve the webhooks of a configuration; return the exit status."""
    return companion_process.main("semq.webhooks", "Serve the webhooks of a local node.", serve, argv)


async def serve(settings: Settings, url: str, stopped: Job) -> None:
    """Serve all webhooks until ``stopped`` returns. Raises LoginRefused, RefusedByNode."""
    jobs: list[Job] = []
    async with Client(url, patience_s=PATIENCE_S) as client:
        deliveries = [Deliveries(webhook, client, SystemClock()) for webhook in settings.webhooks]
        for webhook, one in zip(settings.webhooks, deliveries, strict=True):
            if webhook.documents:
                jobs.append(one.documents)
            if webhook.events:
                jobs.append(one.events)
        log.info("webhooks_served", webhooks=[webhook.name for webhook in settings.webhooks])
        try:
            await companion_process.until(stopped, jobs)
        finally:
            for one in deliveries:
                await one.close()
