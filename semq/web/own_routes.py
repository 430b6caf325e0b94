"""The routes of this package: sign-in, users, tokens, language, monitoring, and a start page without a console."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from semq.web import account_pages, monitoring, sign_in, token_pages
from semq.web.languages import CHOICES, COOKIE
from semq.web.sign_in import own_path
from semq.web.visit import Role, Visit, form, page


async def start(visit: Visit) -> Response:
    """Show the state of the node; ``semq.console`` has a better page at the same address."""
    return visit.render("start.html", status=await visit.ask("node.status"), health=await visit.ask("node.health"))


async def choose_language(visit: Visit) -> Response:
    """Keep the chosen language in the browser."""
    fields = await visit.form()
    response = visit.see_other(own_path(str(fields.get("next", "/"))))
    chosen = str(fields.get("language", ""))
    if chosen in CHOICES:
        response.set_cookie(COOKIE, chosen, max_age=365 * 86_400, path="/", samesite="strict", httponly=True)
    return response


ROUTES: list[BaseRoute] = [
    page("/", start),
    page("/sign-in", sign_in.show, role=None),
    form("/sign-in", sign_in.sign_in, role=None),
    form("/sign-out", sign_in.sign_out, role=Role.VIEWER),
    page("/first/{secret}", sign_in.first, role=None),
    form("/language", choose_language, role=None),
    page("/account", account_pages.account),
    form("/account/password", account_pages.change_own_password, role=Role.VIEWER),
    page("/users", account_pages.users, role=Role.ADMIN),
    form("/users/add", account_pages.add, role=Role.ADMIN),
    form("/users/change", account_pages.change, role=Role.ADMIN),
    page("/tokens", token_pages.tokens, role=Role.ADMIN),
    form("/tokens/create", token_pages.create, role=Role.ADMIN),
    form("/tokens/revoke", token_pages.revoke, role=Role.ADMIN),
    *monitoring.ROUTES,
]
