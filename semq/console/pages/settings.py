"""The page of settings: all keys of this node with their values, or only those that differ from their defaults."""

import asyncio

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.config.reference import row_of
from semq.config.reference import rows as all_rows
from semq.console.display import show
from semq.web.pages.visit import Visit, page


async def settings(visit: Visit) -> Response:
    """Show the settings of the configuration that the web process has read, without secrets."""
    wanted, key = visit.query.get("show", "changed"), visit.query.get("key", "").strip()
    await asyncio.to_thread(all_rows)  # the first time it reads the sources of the sections
    explained = [row for row in visit.web.settings.explain() if row.differs or wanted == "all"]
    rows = [(row, row_of(row.key)) for row in explained if key in row.key]
    return show(visit, "settings.html", rows=rows, wanted=wanted, key=key)


ROUTES = [page("/settings", settings, role=AccessRole.ADMIN)]
