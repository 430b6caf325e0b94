"""Pages of tokens, for administrators: make one, which is shown once; revoke."""

from starlette.responses import Response

from semq.web.errors import BadRequest
from semq.web.visit import Visit
from semq.web.visitor import RIGHTS


async def tokens(visit: Visit) -> Response:
    """All tokens."""
    return await _page(visit, "")


async def create(visit: Visit) -> Response:
    """Make a token and show it once. Raises BadRequest."""
    fields = await visit.form()
    name, days = str(fields.get("name", "")), _days(str(fields.get("days", "")))
    scopes = [str(scope) for scope in fields.getlist("scopes")]
    inbox = str(fields.get("inbox", "")) or None
    asked = await visit.note("token.create", {"name": name, "scopes": scopes, "days": days}, outcome="asked")
    try:
        made, text = await visit.web.tokens.create(name, scopes, visit.who.name, days=days, inbox=inbox)
    except BadRequest as error:
        await visit.note("token.create", {"name": name}, outcome="refused", detail=error.text, asked=asked)
        raise
    await visit.note("token.create", {"name": name, "id": made.id}, asked=asked)
    return await _page(visit, text)


async def revoke(visit: Visit) -> Response:
    """Revoke a token. Raises BadRequest."""
    id_ = str((await visit.form()).get("id", ""))
    asked = await visit.note("token.revoke", {"id": id_}, outcome="asked")
    found = await visit.web.tokens.revoke(id_, visit.who.name)
    await visit.note("token.revoke", {"id": id_}, asked=asked)
    return visit.see_other("/tokens", f"The token {found.name} was revoked.")


async def _page(visit: Visit, new: str) -> Response:
    return visit.render("tokens.html", tokens=await visit.web.tokens.list(), rights=list(RIGHTS), new=new)


def _days(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise BadRequest("The lifetime of a token is a number of days.") from None
