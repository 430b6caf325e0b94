"""Headers of every response, which limit what a browser may do with it.

``ResponseHeaders`` is plain ASGI and not a middleware of Starlette, so that event streams pass unchanged.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# Referrer-Policy is same-origin, because with no-referrer browsers send `Origin: null` with forms.
ALWAYS = (
    (b"content-security-policy", CONTENT_SECURITY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
UNSTORED = (b"cache-control", b"no-store")  # for responses that do not set Cache-Control
TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")


class ResponseHeaders:
    """An ASGI application that adds the headers to the responses of ``app``."""

    def __init__(self, app: ASGIApp, *, is_tls: bool) -> None:
        self._app = app
        self._always = ALWAYS + ((TLS_ONLY,) if is_tls else ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = {name for name, _ in headers}
                missing = [row for row in (*self._always, UNSTORED) if row[0] not in present]
                message = {**message, "headers": headers + missing}
            await send(message)

        await self._app(scope, receive, send_with_headers)
