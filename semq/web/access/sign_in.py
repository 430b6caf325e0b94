"""The sign-in: by the one-time link, or with the password of an account or of an administrator of the node.

A refusal reveals its cause neither by its text nor by its duration. Each sign-in begins a new session, so that a cookie
set before the sign-in is worthless.
"""

import asyncio
from urllib.parse import urlencode

import structlog
from starlette.responses import Response

from semq.service.credentials import passwords
from semq.store import accounts
from semq.store.accounts import Account
from semq.web.access import csrf
from semq.web.access.limits import refusal_pause_s
from semq.web.access.node_login import is_node_admin, is_password_of, node_accepts
from semq.web.access.secret import hash_of, new_secret
from semq.web.access.sessions import LINK_USER
from semq.web.errors import BadRequest
from semq.web.pages.templates import token_field
from semq.web.pages.visit import Visit
from semq.web.services import Web

log = structlog.get_logger("semq.web")

NODE_ROLES = ("admin", "payload")  # roles of a user who may administer the node
LINK_ROLES = ("admin", "payload")  # roles of a session by the one-time link
NAME_MAX = 64  # characters


async def show(visit: Visit) -> Response:
    """Show the form to visitors who are not signed in.

    The CSRF token of the form is derived from a secret in a cookie, because there is no session yet.
    """
    if visit.is_signed_in:
        return visit.see_other(own_path(visit.query.get("next", "/")))
    return _form(visit)


def _form(visit: Visit, fault: str = "", status: int = 200) -> Response:
    secret, following = new_secret(), own_path(visit.query.get("next", "/"))
    context = {
        "fault": fault,
        "has_oidc": visit.web.oidc is not None,
        "next": following,
        "csrf_field": lambda: token_field(csrf.token_of(secret)),
        "path": "/sign-in" + ("" if following == "/" else "?" + urlencode({"next": following})),
    }
    response = visit.render("sign_in.html", status, **context)
    visit.web.sessions.set_form_cookie(response, secret)
    return response


async def sign_in(visit: Visit) -> Response:
    """Check the password, and begin a session or show the form again."""
    fields = await visit.form()
    name, password = str(fields.get("name", ""))[:NAME_MAX], str(fields.get("password", ""))
    peer = visit.peer
    attempts = visit.web.attempts
    is_known = attempts.knows(name, password)
    if not is_known:
        attempts.begin(peer, name)
    began_at = visit.web.clock.monotonic()
    if not await _admit(visit.web, name, password):
        await asyncio.sleep(refusal_pause_s(visit.web.clock.monotonic() - began_at))
        log.warning("sign_in_refused", user=name, peer=peer)
        await visit.web.audit.note(name, "password", peer, "sign-in", outcome="refused")
        _ = visit.translator()
        return _form(visit, _("User or password is wrong, or the user is disabled."), 401)
    if not is_known:
        attempts.succeeded(peer, name)
        attempts.remember(name, password)
    await visit.web.audit.note(name, "password", peer, "sign-in")
    return await _begin(visit, name, None, own_path(str(fields.get("next", "/"))))


async def use_link(visit: Visit) -> Response:
    """Begin a session by the one-time link."""
    peer = visit.peer
    if visit.request.method != "GET":  # HEAD must not consume the link
        raise BadRequest
    visit.web.attempts.begin(peer)
    secret = str(visit.request.path_params["secret"])
    if not await visit.web.database.write(accounts.use_link, hash_of(secret), visit.web.clock.wall()):
        return visit.render("link_used.html", 403)
    visit.web.attempts.succeeded(peer)
    await visit.web.audit.note(LINK_USER, "link", peer, "sign-in")
    return await _begin(visit, LINK_USER, LINK_ROLES, "/users")


async def sign_out(visit: Visit) -> Response:
    """End the session."""
    await visit.note("sign-out")
    await visit.web.sessions.end(visit.secret)
    response = visit.see_other("/sign-in")
    visit.web.sessions.set_cookie(response, "")
    return response


async def _begin(visit: Visit, name: str, roles: tuple[str, ...] | None, path: str) -> Response:
    sessions = visit.web.sessions
    if former := sessions.secret_of(visit.request):
        await sessions.end(former)
    secret = await sessions.open(name, roles, visit.peer)
    response = visit.see_other(path)
    sessions.set_cookie(response, secret)
    sessions.set_form_cookie(response, "")
    return response


async def _admit(web: Web, name: str, password: str) -> bool:
    """Whether a user may sign in; an administrator of the node gets an account at the first sign-in.

    Every attempt costs one check of a password hash, so that the duration does not reveal which names exist.
    """
    account = await web.database.read(accounts.account, name)
    is_right = await passwords.is_right(password, account.password if account is not None else None)
    is_disabled = account is not None and account.disabled_at is not None
    if account is not None and account.password is not None:
        return is_right and not is_disabled
    is_admins = is_password_of(web.settings, name, password) and is_node_admin(web.settings, name)
    if is_disabled or not is_admins or not await node_accepts(web, name, password):
        return False
    if account is None:
        await web.database.write(accounts.add_account, Account(name, None, NODE_ROLES, web.clock.wall(), "the node"))
    return True


def own_path(path: str) -> str:
    """Return a path of this site unchanged; for any other address return the start page, ``/``."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_own and path.isascii() else "/"
