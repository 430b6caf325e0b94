"""Scheduled jobs: description, last and next run, immediate runs, and pauses."""

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import show, translator
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, form, page

ACTS = {"run": "job.run", "pause": "job.pause", "resume": "job.resume"}


async def jobs(visit: Visit) -> Response:
    """All jobs of the node."""
    return show(visit, "jobs.html", rows=await visit.ask("job.list"), live=LIVE)


async def act(visit: Visit) -> Response:
    """Run, pause or resume a job."""
    _ = translator(visit)
    given = await visit.form()
    name, wanted, why = str(given.get("name", "")), str(given.get("act", "")), str(given.get("why", "")).strip()
    if wanted not in ACTS:
        return visit.see_other("/jobs", _("There is no such act."))
    if wanted == "pause" and not why:
        return visit.see_other("/jobs", _("Nothing was done: give a reason."))
    await visit.ask(ACTS[wanted], name=name, why=why if wanted == "pause" else None)
    words = {"run": _("The job runs now."), "pause": _("The job is paused."), "resume": _("The job is resumed.")}
    return visit.see_other("/jobs", words[wanted])


ROUTES = [page("/jobs", jobs), form("/jobs/act", act, role=AccessRole.ADMIN)]
