"""The two pages of a sign-in through a provider: the redirect, and the return.

After a redirect from another site, browsers send no cookie with ``SameSite=Strict``. Therefore the cookie of a sign-in
in progress is ``SameSite=Lax``. The cookie of the session is strict, so the callback does not redirect the browser; it
answers with a page that loads the requested page.
"""

from starlette.responses import RedirectResponse, Response

from semq.errors import SemqError
from semq.web.access.limits import OIDC_SIGN_IN_S
from semq.web.access.secret import new_secret
from semq.web.access.sign_in import own_path
from semq.web.errors import BadRequest, NoSuchPage, OidcRefused
from semq.web.pages.visit import Visit

BEGIN, CALLBACK = "/sign-in/oidc", "/sign-in/oidc/callback"
VIA = "oidc"  # means of sign-in, in the audit log


async def begin(visit: Visit) -> Response:
    """Redirect the browser to the provider."""
    provider = visit.web.oidc
    if provider is None:
        raise NoSuchPage
    visit.web.attempts.check(visit.peer)
    browser_secret = new_secret()
    response = RedirectResponse(
        await provider.begin(browser_secret, _redirect_address(visit), own_path(visit.query.get("next", "/"))), 303
    )
    response.set_cookie(
        _cookie(visit),
        browser_secret,
        max_age=int(OIDC_SIGN_IN_S),
        path=CALLBACK,
        secure=visit.web.is_tls,
        httponly=True,
        samesite="lax",
    )
    return response


async def callback(visit: Visit) -> Response:
    """Begin a session for the person that the provider has identified."""
    provider, peer = visit.web.oidc, visit.peer
    if provider is None:
        raise NoSuchPage
    if visit.request.method != "GET":
        raise BadRequest
    visit.web.attempts.begin(peer)
    try:
        person, path = await provider.complete(visit.request.cookies.get(_cookie(visit), ""), visit.query)
    except OidcRefused as error:
        name = str(error.facts.get("name", ""))
        await visit.web.audit.note(name, VIA, peer, "sign-in", outcome="refused", detail=str(error))
        raise
    except SemqError:
        visit.web.attempts.succeeded(peer)  # the provider did not answer: not a failure of the user
        raise
    visit.web.attempts.succeeded(peer)
    await visit.web.audit.note(person.name, VIA, peer, "sign-in", {"roles": list(person.roles)})
    sessions = visit.web.sessions
    secret = await sessions.open(person.name, person.roles, peer)
    response = visit.render("signed_in.html", path=path, name=person.name)
    sessions.set_cookie(response, secret)
    response.delete_cookie(_cookie(visit), path=CALLBACK, secure=visit.web.is_tls, httponly=True, samesite="lax")
    return response


def _redirect_address(visit: Visit) -> str:
    """Return the address of the callback, which has to be registered at the provider."""
    return f"{visit.web.http.url.rstrip('/') or str(visit.request.base_url).rstrip('/')}{CALLBACK}"


def _cookie(visit: Visit) -> str:
    return f"semq_oidc_{visit.web.settings.address.type}_{visit.web.settings.address.id}"
