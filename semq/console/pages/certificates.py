"""The page of certificates: of this node, or of all institutions at the hub; enrolment tokens; renewal; revocation."""

import asyncio

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import Row, show, translator
from semq.console.live import LIVE
from semq.errors import SemqError
from semq.pki.errors import NoAuthority, NoIdentity
from semq.web.errors import BadRequest
from semq.web.pages.error_words import sentence_of
from semq.web.pages.visit import Visit, form, page

ENDS_SOON_DAYS = 30
NO_CERTIFICATES = {NoIdentity.code, NoAuthority.code}


async def certificates(visit: Visit) -> Response:
    """Show all certificates: the valid ones, soonest end first; then revoked and expired ones."""
    return await _page(visit)


async def _page(visit: Visit, new_token: Row | None = None) -> Response:
    is_hub = visit.web.settings.node.kind == "platform"
    rows: list[Row] = []
    tokens: list[Row] = []
    nodes: list[Row] = []
    own, no_certificates = None, ""
    try:
        own, rows = await asyncio.gather(visit.ask("cert.show"), visit.ask("cert.list"))
        if is_hub:
            tokens, nodes = await asyncio.gather(visit.ask("nodes.tokens"), visit.ask("nodes.list"))
    except SemqError as error:
        if error.code not in NO_CERTIFICATES:
            raise
        no_certificates = sentence_of(translator(visit), error.code, error.text) or error.text
    rows = sorted(rows, key=lambda row: (row.get("state") in ("revoked", "expired"), row.get("days_left") or 0))
    answer = show(
        visit, "certificates.html", own=own, rows=rows, tokens=tokens, nodes=[node["node"] for node in nodes],
        is_hub=is_hub, no_certificates=no_certificates, new_token=new_token, ends_soon=ENDS_SOON_DAYS, live=LIVE,
    )  # fmt: skip
    if new_token:
        answer.headers["cache-control"] = "no-store"
    return answer


async def make_token(visit: Visit) -> Response:
    """Make an enrolment token. The answer is the only page that shows the token. Raises BadRequest."""
    fields = await visit.form()
    text = str(fields.get("hours", "")).strip()
    try:
        hours = float(text) if text else None
    except ValueError as error:
        raise BadRequest("The validity is a number of hours.", hours=text[:20]) from error
    new_token = await visit.ask("nodes.token", node=str(fields.get("node", "")), hours=hours)
    return await _page(visit, new_token)


async def choose_revoked(visit: Visit) -> Response:
    """Show the valid certificates that a revocation would end, and their institutions; ask for the reason."""
    _ = translator(visit)
    which = visit.query.get("which", "").strip()
    names = (which, f"1.{which}")
    issued, nodes = await asyncio.gather(visit.ask("cert.list"), visit.ask("nodes.list"))
    rows = [row for row in issued if row["state"] == "valid" and (row["serial"] in names or row["node"] in names)]
    if not rows:
        return visit.see_other("/certificates", _("No valid certificate has this institution or serial number."))
    revoked = {row["node"] for row in rows}
    return show(visit, "revoke.html", rows=rows, nodes=[node for node in nodes if node["node"] in revoked])


async def revoke(visit: Visit) -> Response:
    """Revoke the certificates with these serial numbers."""
    _ = translator(visit)
    fields = await visit.form()
    serials, why = [str(serial) for serial in fields.getlist("serials")], str(fields.get("why", "")).strip()
    if not (serials and why):
        return visit.see_other("/certificates", _("Nothing was done: give a reason."))
    count = 0
    for serial in serials:
        count += len((await visit.ask("cert.revoke", which=serial, why=why))["revoked"])
    notice = visit.web.languages.ngettext(
        "%(count)s certificate was revoked.", "%(count)s certificates were revoked.", count
    ) % {"count": count}
    return visit.see_other("/certificates", notice)


async def renew(visit: Visit) -> Response:
    """Renew the node's own certificate now."""
    await visit.ask("cert.renew")
    return visit.see_other("/certificates", translator(visit)("The certificate of this node was renewed."))


ROUTES = [
    page("/certificates", certificates),
    form("/certificates/token", make_token, role=AccessRole.ADMIN),
    page("/certificates/revoke", choose_revoked, role=AccessRole.ADMIN),
    form("/certificates/revoke", revoke, role=AccessRole.ADMIN),
    form("/certificates/renew", renew, role=AccessRole.ADMIN),
]
