"""The page of scheduled jobs: list, run, pause, resume."""

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import show, translator
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, form, page


async def jobs(visit: Visit) -> Response:
    """Show all jobs of the node."""
    return show(visit, "jobs.html", rows=await visit.ask("job.list"), live=LIVE)


async def act(visit: Visit) -> Response:
    """Run, pause or resume a job."""
    _ = translator(visit)
    fields = await visit.form()
    name, act_name = str(fields.get("name", "")), str(fields.get("act", ""))
    why = str(fields.get("why", "")).strip()
    acts = {
        "run": ("job.run", _("The job runs now.")), "pause": ("job.pause", _("The job is paused.")),
        "resume": ("job.resume", _("The job is resumed.")),
    }  # fmt: skip
    if act_name not in acts:
        return visit.see_other("/jobs", _("There is no such act."))
    if act_name == "pause" and not why:
        return visit.see_other("/jobs", _("Nothing was done: give a reason."))
    operation, notice = acts[act_name]
    await visit.ask(operation, name=name, why=why if act_name == "pause" else None)
    return visit.see_other("/jobs", notice)


ROUTES = [page("/jobs", jobs), form("/jobs/act", act, role=AccessRole.ADMIN)]
