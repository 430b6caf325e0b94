"""Pages of tokens, for administrators: list, create and revoke. The text of a token is shown once."""

from starlette.responses import Response

from semq.access_rights import RIGHTS
from semq.web.errors import BadRequest
from semq.web.pages.visit import Visit


async def tokens(visit: Visit) -> Response:
    """Show all tokens."""
    return await _page(visit, "")


async def create(visit: Visit) -> Response:
    """Make a token and show it once."""
    fields = await visit.form()
    values = {name: str(fields.get(name, "")).strip() or None for name in ("name", "days", "inbox")}
    scopes = [str(scope) for scope in fields.getlist("scopes")]
    if values["name"] is None or not scopes:
        raise BadRequest("A token has a name and at least one scope.")
    created = await visit.ask("token.create", scopes=scopes, **values)
    return await _page(visit, created["token"])


async def revoke(visit: Visit) -> Response:
    """Revoke a token."""
    _, id_ = visit.translator(), str((await visit.form()).get("id", ""))
    revoked = await visit.ask("token.revoke", id=id_)
    visit.web.tokens.read_again()
    return visit.see_other("/tokens", _("The token %(name)s was revoked.") % {"name": revoked["name"]})


async def _page(visit: Visit, new: str) -> Response:
    """Render the page; ``new``: text of a new token, or empty."""
    return visit.render("tokens.html", tokens=await visit.ask("token.list"), rights=list(RIGHTS), new=new)
