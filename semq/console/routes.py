"""The routes of all pages and forms of the console."""

from starlette.routing import Route

from semq.console.pages import (
    acts,
    audit,
    broker,
    certificates,
    definitions,
    failed,
    figures,
    health,
    held,
    jobs,
    messages,
    overview,
    partners,
    reconciliation,
    settings,
    stuck,
)

PAGES = (
    overview, figures, messages, stuck, failed, held, partners, broker, jobs, certificates, definitions, reconciliation,
    audit, health, settings, acts,
)  # fmt: skip
ROUTES: list[Route] = [route for module in PAGES for route in module.ROUTES]
