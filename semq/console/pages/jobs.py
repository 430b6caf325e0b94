"""The page of scheduled jobs: description, last and next run, immediate runs, and pauses."""

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import show, translator
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, form, page

ACTS = {"run": "job.run", "pause": "job.pause", "resume": "job.resume"}


async def jobs(visit: Visit) -> Response:
    """Show all jobs of the node."""
    return show(visit, "jobs.html", rows=await visit.ask("job.list"), live=LIVE)


async def act(visit: Visit) -> Response:
    """Run, pause or resume a job."""
    _ = translator(visit)
    fields = await visit.form()
    name, act_name = str(fields.get("name", "")), str(fields.get("act", ""))
    why = str(fields.get("why", "")).strip()
    if act_name not in ACTS:
        return visit.see_other("/jobs", _("There is no such act."))
    if act_name == "pause" and not why:
        return visit.see_other("/jobs", _("Nothing was done: give a reason."))
    await visit.ask(ACTS[act_name], name=name, why=why if act_name == "pause" else None)
    notices = {"run": _("The job runs now."), "pause": _("The job is paused."), "resume": _("The job is resumed.")}
    return visit.see_other("/jobs", notices[act_name])


ROUTES = [page("/jobs", jobs), form("/jobs/act", act, role=AccessRole.ADMIN)]
