"""The pages of acts on messages, in two steps: a fixed selection with a reason, then the progress."""

from collections.abc import Sequence

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console import bulk
from semq.console.acts import ACTS
from semq.console.bulk import BulkAct
from semq.console.display import now_ms, show, translator
from semq.console.live import LIVE
from semq.console.words import RESULTS
from semq.web.pages.visit import Visit, form, page

SAMPLE_MAX = 10  # messages that the page of an act shows


async def prepare(visit: Visit) -> Response:
    """Prepare an act on the selected messages."""
    fields = await visit.form()
    back = str(fields.get("back", ""))
    is_own = back.startswith("/") and not back.startswith("//") and "\\" not in back
    ids = [str(id_) for id_ in fields.getlist("ids")]
    return await prepare_named(visit, str(fields.get("act", "")), ids, back if is_own else "/")


async def prepare_named(visit: Visit, name: str, ids: Sequence[str], back: str) -> Response:
    """Prepare an act on named messages, and show its page."""
    _ = translator(visit)
    act = ACTS.get(name)
    if act is None:
        return visit.see_other(back, _("There is no such act."))
    rows = await bulk.rows_of(visit, act, ids)
    if not rows:
        return visit.see_other(back, _("Nothing was chosen."))
    prepared = bulk.prepare(
        visit, act=name, back=back, total=len(rows), sample=list(rows.values())[:SAMPLE_MAX],
        work=bulk.by_names(act, list(rows)),
    )  # fmt: skip
    return visit.see_other(f"/acts/{prepared.key}")


async def act_page(visit: Visit) -> Response:
    """Show a prepared act, or the progress of a started one."""
    act = _act_of(visit)
    if act is None:
        return _forgotten(visit)
    return show(visit, "act.html", act=act, results=RESULTS, live=LIVE)


async def act_start(visit: Visit) -> Response:
    """Start a prepared act with a reason."""
    _ = translator(visit)
    act, why = _act_of(visit), str((await visit.form()).get("why", "")).strip()
    if act is None:
        return _forgotten(visit)
    if not why:
        return visit.see_other(f"/acts/{act.key}", _("Nothing was done: give a reason."))
    await act.start(visit, why, now_ms(visit))
    return visit.see_other(f"/acts/{act.key}")


async def act_stop(visit: Visit) -> Response:
    """Stop a running act, or discard a prepared act."""
    act = _act_of(visit)
    if act is None:
        return visit.see_other("/")
    act.stop()
    return visit.see_other(act.back if not act.results else f"/acts/{act.key}")


def _forgotten(visit: Visit) -> Response:
    _ = translator(visit)
    text = _(
        "This act is no longer known: the web process was restarted, or newer acts replaced it. "
        "Completed parts remain; prepare the act again for the rest."
    )
    return visit.see_other("/failed" if visit.web.settings.node.kind == "local" else "/held", text)


def _act_of(visit: Visit) -> BulkAct | None:
    return bulk.find(visit, visit.request.path_params["key"])


ROUTES = [
    form("/acts/prepare", prepare, role=AccessRole.OPERATOR),
    page("/acts/{key}", act_page, role=AccessRole.OPERATOR),
    form("/acts/{key}/start", act_start, role=AccessRole.OPERATOR),
    form("/acts/{key}/stop", act_stop, role=AccessRole.OPERATOR),
]
