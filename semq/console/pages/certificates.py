"""Certificates: those of this node and, at the hub, of all institutions; enrolment tokens and their use."""

import asyncio
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import show, translator
from semq.console.live import LIVE
from semq.errors import SemqError
from semq.web.pages.visit import Visit, form, page

ENDS_SOON_DAYS = 30


async def certificates(visit: Visit) -> Response:
    """All certificates, ordered by their end."""
    return await _page(visit)


async def _page(visit: Visit, made: dict[str, Any] | None = None) -> Response:
    is_hub = visit.web.settings.node.kind == "platform"
    rows: list[dict[str, Any]] = []
    tokens: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    own, absent = None, ""
    try:
        own, rows = await asyncio.gather(visit.ask("cert.show"), visit.ask("cert.list"))
        if is_hub:
            tokens, nodes = await asyncio.gather(visit.ask("nodes.tokens"), visit.ask("nodes.list"))
    except SemqError as error:
        if not error.code.startswith("SEMQ-5"):
            raise
        absent = error.text  # the node has no certificates: nothing is wrong
    rows = sorted(rows, key=lambda one: (one.get("state") in ("revoked", "expired"), one.get("days_left") or 0))
    answer = show(
        visit, "certificates.html", own=own, rows=rows, tokens=tokens, nodes=[one["node"] for one in nodes],
        is_hub=is_hub, absent=absent, made=made, ends_soon=ENDS_SOON_DAYS, live=LIVE,
    )  # fmt: skip
    if made:
        answer.headers["cache-control"] = "no-store"
    return answer


async def make_token(visit: Visit) -> Response:
    """Make an enrolment token. Only the answer to this form shows the token, so the answer is not a redirect."""
    given = await visit.form()
    hours = str(given.get("hours", "")).strip()
    made = await visit.ask(
        "nodes.token", node=str(given.get("node", "")), hours=float(hours) if _is_number(hours) else None
    )
    return await _page(visit, made)


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


async def revoke(visit: Visit) -> Response:
    """Revoke a certificate, or all of an institution."""
    _ = translator(visit)
    given = await visit.form()
    which, why = str(given.get("which", "")).strip(), str(given.get("why", "")).strip()
    if not (which and why):
        return visit.see_other("/certificates", _("Nothing was done: give a reason."))
    answer = await visit.ask("cert.revoke", which=which, why=why)
    notice = visit.web.languages.ngettext(
        "%(count)s certificate was revoked.", "%(count)s certificates were revoked.", len(answer["revoked"])
    ) % {"count": len(answer["revoked"])}
    return visit.see_other("/certificates", notice)


async def renew(visit: Visit) -> Response:
    """Renew the node's own certificate now."""
    await visit.ask("cert.renew")
    return visit.see_other("/certificates", translator(visit)("The certificate of this node was renewed."))


ROUTES = [
    page("/certificates", certificates),
    form("/certificates/token", make_token, role=AccessRole.ADMIN),
    form("/certificates/revoke", revoke, role=AccessRole.ADMIN),
    form("/certificates/renew", renew, role=AccessRole.ADMIN),
]
