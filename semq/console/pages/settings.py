"""The page of settings: all keys of this node with their values, or only those that differ from their defaults; the
reload of the configuration.
"""

import asyncio

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.config.file import load
from semq.config.reference import row_of
from semq.config.reference import rows as all_rows
from semq.console.display import show, translator
from semq.web.pages.visit import Visit, form, page


async def settings(visit: Visit) -> Response:
    """Show the settings of the configuration as its file is now, without secrets."""
    wanted, key = visit.query.get("show", "changed"), visit.query.get("key", "").strip()
    await asyncio.to_thread(all_rows)  # the first time it reads the sources of the sections
    read = visit.web.settings
    present = await asyncio.to_thread(load, read.file, read.environment, read.institution)
    explained = [row for row in present.explain() if row.differs or wanted == "all"]
    rows = [(row, row_of(row.key)) for row in explained if key in row.key]
    return show(visit, "settings.html", rows=rows, wanted=wanted, key=key)


async def reload(visit: Visit) -> Response:
    """Let the node apply the changes of its file; say which are in use, and which wait for the next start."""
    _ = translator(visit)
    answer = await visit.ask("node.reload")
    parts = [
        text % {"keys": ", ".join(answer[name])}
        for name, text in (("changed", _("In use now: %(keys)s.")), ("restart", _("At the next start: %(keys)s.")))
        if answer[name]
    ]
    return visit.see_other("/settings", " ".join(parts) or _("Nothing has changed in the configuration."))


ROUTES = [
    page("/settings", settings, role=AccessRole.ADMIN),
    form("/settings/reload", reload, role=AccessRole.ADMIN),
]
