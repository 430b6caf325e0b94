"""The sign-in: by the one-time link of the first start, with a password of a user, or as a user of the node.

A refusal does not reveal the cause and always takes the same time. Each sign-in begins a new session, so that an
earlier cookie is not valid for it.
"""

import asyncio

import structlog
from starlette.responses import Response

from semq.store import accounts
from semq.store.accounts import Account
from semq.web.access import csrf, passwords
from semq.web.access.limits import refusal_pause_s
from semq.web.access.node_login import is_node_admin, node_accepts
from semq.web.access.secret import hash_of, new_secret
from semq.web.access.sessions import FIRST
from semq.web.errors import BadRequest
from semq.web.pages.visit import Visit
from semq.web.services import Web

log = structlog.get_logger("semq.web")

NODE_ROLES = ("admin", "payload")  # roles of a node's user with the right to use semq.admin
FIRST_ROLES = ("admin", "payload")
NAME_MAX = 64
REFUSED = "User or password is wrong, or the user is disabled."


async def show(visit: Visit) -> Response:
    """Show the form, with a secret of its own in a cookie."""
    if visit.is_signed_in:
        return visit.see_other(own_path(visit.query.get("next", "/")))
    return _form(visit)


def _form(visit: Visit, fault: str = "", status: int = 200) -> Response:
    secret = new_secret()
    context = {
        "fault": fault,
        "has_oidc": visit.web.oidc is not None,
        "next": own_path(visit.query.get("next", "/")),
        "sign_in_csrf": csrf.token_of(secret),
    }
    response = visit.render("sign_in.html", status, **context)
    visit.web.sessions.hand_over_form(response, secret)
    return response


async def sign_in(visit: Visit) -> Response:
    """Check the password and begin a session. Raises TooManyRequests."""
    fields = await visit.form()
    name, password = str(fields.get("name", ""))[:NAME_MAX], str(fields.get("password", ""))
    peer = peer_of(visit)
    visit.web.attempts.begin(peer)
    begun = visit.web.clock.monotonic()
    if not await _is_known(visit.web, name, password):
        await asyncio.sleep(refusal_pause_s(visit.web.clock.monotonic() - begun))
        log.warning("sign_in_refused", user=name, peer=peer)
        await visit.web.audit.note(name, "password", peer, "sign-in", outcome="refused")
        return _form(visit, REFUSED, 401)
    visit.web.attempts.succeeded(peer)
    await visit.web.audit.note(name, "password", peer, "sign-in")
    return await _begin(visit, name, None, own_path(str(fields.get("next", "/"))))


async def first(visit: Visit) -> Response:
    """Begin a session by the one-time link. Raises TooManyRequests."""
    peer = peer_of(visit)
    if visit.request.method != "GET":  # HEAD must not consume the link
        raise BadRequest
    visit.web.attempts.begin(peer)
    secret = str(visit.request.path_params["secret"])
    if not await visit.web.database.write(accounts.use_link, hash_of(secret), visit.web.clock.wall()):
        return visit.render("link_used.html", 403)
    visit.web.attempts.succeeded(peer)
    await visit.web.audit.note(FIRST, "link", peer, "sign-in")
    return await _begin(visit, FIRST, FIRST_ROLES, "/users")


async def sign_out(visit: Visit) -> Response:
    """End the session."""
    await visit.note("sign-out")
    await visit.web.sessions.end(visit.secret)
    response = visit.see_other("/sign-in")
    visit.web.sessions.hand_over(response, "")
    return response


async def _begin(visit: Visit, name: str, roles: tuple[str, ...] | None, path: str) -> Response:
    sessions = visit.web.sessions
    before = sessions.secret_of(visit.request)
    if before:
        await sessions.end(before)
    secret = await sessions.open(name, roles, peer_of(visit))
    response = visit.see_other(path)
    sessions.hand_over(response, secret)
    sessions.hand_over_form(response, "")
    return response


async def _is_known(web: Web, name: str, password: str) -> bool:
    known = await web.database.read(accounts.account, name)
    if known is not None and known.password is not None:
        return await passwords.is_right(password, known.password) and known.disabled_at is None
    is_of_node = is_node_admin(web.settings, name)
    if not is_of_node or (known is not None and known.disabled_at is not None):
        await passwords.is_right(password, None)
        return False
    if not await node_accepts(web, name, password):
        return False
    if known is None:
        await web.database.write(accounts.add_account, Account(name, None, NODE_ROLES, web.clock.wall(), "the node"))
    return True


def own_path(path: str) -> str:
    """Return a path of this site; another address becomes the start page."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_own and path.isascii() else "/"


def peer_of(visit: Visit) -> str:
    """Return the address that a request comes from."""
    return visit.request.client.host if visit.request.client else ""
