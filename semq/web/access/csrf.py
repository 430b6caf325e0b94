"""Protection against forms of other sites: checks of the session's token, and of the request's origin.

A request carries the token in the form field ``csrf`` or the header ``X-CSRF-Token``.
"""

from urllib.parse import urlsplit

from starlette.requests import Request

from semq.web.access.secret import derived, is_same
from semq.web.errors import ForeignForm

FIELD, HEADER = "csrf", "x-csrf-token"
OWN_SITES = ("same-origin", "none")  # values of Sec-Fetch-Site; none: the user entered the address


def token_of(secret: str) -> str:
    """Return the token for the forms of a session."""
    return derived(secret, "csrf")


def check_origin(request: Request) -> None:
    """Refuse requests that another site caused. Raises ForeignForm."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in OWN_SITES:
        raise ForeignForm("The request comes from another site.", site=site)
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise ForeignForm("The request comes from another origin.")


def check_token(secret: str, token: str) -> None:
    """Refuse a form without the token of this session. Raises ForeignForm."""
    if not secret or not is_same(token_of(secret), token):
        raise ForeignForm
