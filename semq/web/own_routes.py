"""The routes of this package's pages and forms: sign-in, users, tokens, language, monitoring."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from semq.access_rights import AccessRole
from semq.translations import CHOICES
from semq.web.access import oidc_sign_in, sign_in
from semq.web.access.sign_in import own_path
from semq.web.node import monitoring
from semq.web.pages import account_pages, token_pages
from semq.web.pages.languages import COOKIE
from semq.web.pages.visit import Visit, form, page


async def choose_language(visit: Visit) -> Response:
    """Store the chosen language in a cookie of the browser."""
    fields = await visit.form()
    response = visit.see_other(own_path(str(fields.get("next", "/"))))
    chosen = str(fields.get("language", ""))
    if chosen in CHOICES:
        response.set_cookie(COOKIE, chosen, max_age=365 * 86_400, path="/", samesite="strict", httponly=True)
    return response


ROUTES: list[BaseRoute] = [
    page("/sign-in", sign_in.show, role=None),
    form("/sign-in", sign_in.sign_in, role=None),
    page(oidc_sign_in.BEGIN, oidc_sign_in.begin, role=None, name="oidc_begin"),
    page(oidc_sign_in.CALLBACK, oidc_sign_in.callback, role=None, name="oidc_callback"),
    form("/sign-out", sign_in.sign_out, role=AccessRole.VIEWER),
    page("/first/{secret}", sign_in.use_link, role=None),
    form("/language", choose_language, role=None),
    page("/account", account_pages.account),
    form("/account/password", account_pages.change_own_password, role=AccessRole.VIEWER),
    page("/users", account_pages.users, role=AccessRole.ADMIN),
    form("/users/add", account_pages.add, role=AccessRole.ADMIN),
    form("/users/change", account_pages.change, role=AccessRole.ADMIN),
    page("/tokens", token_pages.tokens, role=AccessRole.ADMIN),
    form("/tokens/create", token_pages.create, role=AccessRole.ADMIN),
    form("/tokens/revoke", token_pages.revoke, role=AccessRole.ADMIN),
    *monitoring.ROUTES,
]
