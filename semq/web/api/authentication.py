"""Authentication of API requests: by token, user of the node, client certificate, or session of the console.

A request that changes something is refused if another site caused it, whatever its credentials: browsers add passwords
and certificates to requests of all sites.

Failures are counted for the address of the client, which several clients may share. After too many failures, tokens and
passwords from this address are refused without a check, except those that were valid before.
"""

import asyncio
from base64 import b64decode
from typing import TYPE_CHECKING

from starlette.requests import Request

from semq.access_rights import rights_of
from semq.web.access import csrf
from semq.web.access.limits import refusal_pause_s
from semq.web.access.visitor import Visitor, peer_of
from semq.web.errors import NotSignedIn
from semq.web.transport.connection import CERTIFICATE

if TYPE_CHECKING:
    from semq.web.services import Web

SAFE = ("GET", "HEAD")  # methods that change nothing, so that other sites may cause such requests
HEADER_MAX = 4096  # characters of the header Authorization


async def authenticate(request: Request, web: "Web") -> Visitor:
    """Return the sender of a request.

    Raises NotSignedIn, ForeignForm, TooManyRequests, NodeUnreachable, and the errors of ``Database.read``.
    """
    if request.method not in SAFE:
        csrf.check_origin(request)
    peer = peer_of(request)
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return await _by_header(authorization, web, peer)
    fingerprint = request.scope.get("extensions", {}).get(CERTIFICATE, {}).get("sha256")
    if fingerprint in web.http.certificates:
        return Visitor(fingerprint[:16], "certificate", peer, rights_of(web.http.certificates[fingerprint]))
    secret = web.sessions.secret_of(request)
    visitor = await web.sessions.visitor(secret, peer) if secret else None
    if visitor is None:
        raise NotSignedIn
    if request.method not in SAFE:
        csrf.check_token(secret, request.headers.get(csrf.HEADER, ""))
    return visitor


async def _by_header(authorization: str, web: "Web", peer: str) -> Visitor:
    """Return the visitor of a header ``Authorization``."""
    began_at = web.clock.monotonic()
    scheme, _, text = authorization.partition(" ")
    text, is_token = text.strip(), scheme.lower() == "bearer"
    user, password = _basic(text) if scheme.lower() == "basic" else ("", "")
    if not (web.tokens.knows(text) if is_token else web.attempts.knows(user, password)):
        web.attempts.check(peer, user)
    visitor = None
    if len(authorization) <= HEADER_MAX:
        visitor = await (web.tokens.visitor(text, peer) if is_token else web.logins.visitor(user, password, peer))
    if visitor is None:
        web.attempts.failed(peer, user)  # before the pause, so that parallel guesses are counted
        await asyncio.sleep(refusal_pause_s(web.clock.monotonic() - began_at))
        raise NotSignedIn("The token, or user and password, are not valid.")
    if not is_token:
        web.attempts.remember(user, password)
    return visitor


def _basic(text: str) -> tuple[str, str]:
    """Return user and password of the scheme Basic (RFC 7617); both are empty if the text has another form."""
    try:
        name, colon, password = b64decode(text, validate=True).decode("utf-8").partition(":")
    except ValueError:
        return "", ""
    return (name, password) if colon else ("", "")
