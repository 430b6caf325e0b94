"""Errors of the web process, codes 1400–1449.

SemqError
├── BadInput
│   ├── NotSignedIn
│   ├── RoleMissing
│   ├── ForeignForm
│   ├── NoSuchPage
│   ├── BadRequest
│   ├── BodyTooLarge
│   ├── OidcRefused
│   ├── LeaseGone
│   ├── RangeNotSatisfiable
│   ├── ForeignHost
│   └── BodyTooSlow
├── Unavailable
│   ├── TooManyRequests
│   ├── BodiesFull
│   ├── SpoolFull
│   ├── OidcAway
│   └── QueryTooSlow
└── Misconfigured
    ├── WebPortTaken
    ├── OidcMissing
    ├── NoHttpSection
    └── ForeignNode
"""

from semq.errors import BadInput, Misconfigured, Unavailable


class NotSignedIn(BadInput):
    """Nobody is signed in."""

    code = "SEMQ-1400"
    remedy = "Sign in, or send a valid token (`semq token create`) as `Authorization: Bearer …`."


class RoleMissing(BadInput):
    """This user or token has no right to do this."""

    code = "SEMQ-1401"
    remedy = (
        "Ask an administrator for the role, or for a token with the scope (`semq token create NAME --scope SCOPE`)."
    )


class ForeignForm(BadInput):
    """The form does not belong to this session."""

    code = "SEMQ-1402"
    remedy = "Open the page again and repeat; nothing was changed."


class NoSuchPage(BadInput):
    """There is nothing at this address."""

    code = "SEMQ-1403"
    remedy = "Use the links of the pages; for programs /api/v1/openapi.json lists the addresses."


class BadRequest(BadInput):
    """The request cannot be read."""

    code = "SEMQ-1404"


class BodyTooLarge(BadInput):
    """The body is larger than the limit."""

    code = "SEMQ-1405"
    remedy = (
        "Send the body itself instead of JSON; or send smaller documents, or raise protocol.max_document_bytes or"
        " max_large_document_bytes at the node and its partners."
    )


class LeaseGone(BadInput):
    """The lease has ended: its time is over, it was settled, or the connection to the node was lost."""

    code = "SEMQ-1406"
    remedy = (
        "Undo your work on the document, or make it repeatable: unless the document was settled, it is delivered again."
    )


class RangeNotSatisfiable(BadInput):
    """The body has none of the requested bytes."""

    code = "SEMQ-1409"
    remedy = "If you have as many bytes as `size`, you have the whole body; otherwise request it without Range."


class ForeignHost(BadInput):
    """The request names a host that is not this node."""

    code = "SEMQ-1408"
    remedy = (
        "Use the address that the node prints, or add the name to http.hosts; the name of a proxy goes into http.url."
    )


class BodyTooSlow(BadInput):
    """The body of the request came too slowly, or not at all."""

    code = "SEMQ-1415"
    remedy = "Send the body without pauses; http.body_s and http.body_bytes_per_s are the limits."


class OidcRefused(BadInput):
    """The sign-in through the provider is refused."""

    code = "SEMQ-1407"
    remedy = "Begin again at /sign-in; if it fails again, compare [http.oidc] with the configuration of the provider."


class OidcAway(Unavailable):
    """The OpenID Connect provider does not answer as it should."""

    code = "SEMQ-1413"
    remedy = "Try again later, or sign in with a password; check http.oidc.issuer and the network."


class OidcMissing(Misconfigured):
    """The packages for the sign-in through a provider are not installed."""

    code = "SEMQ-1422"
    remedy = "Install them: `pip install 'WHEEL[oidc]'`, with SEMQ's wheel; or remove [http.oidc]."


class TooManyRequests(Unavailable):
    """Too many requests of this user, or failed sign-ins from this address."""

    code = "SEMQ-1410"
    remedy = "Wait for the time in Retry-After; [http] has the limits."


class BodiesFull(Unavailable):
    """The bodies of other requests and answers fill the memory of the web process."""

    code = "SEMQ-1412"
    remedy = "Repeat the request later, with the same Idempotency-Key for a document; http.memory_bytes is the limit."


class SpoolFull(Unavailable):
    """There is no room for a large body: other bodies need it, or the disk is full."""

    code = "SEMQ-1414"
    remedy = (
        "Repeat the request later, with the same Idempotency-Key; http.spool_bytes is the limit, and TMPDIR of the node"
        " selects the folder."
    )


class QueryTooSlow(Unavailable):
    """The database took too long for this page, and the query was ended so as not to delay the node."""

    code = "SEMQ-1411"
    remedy = "Select fewer rows: a shorter time, one partner, one state."


class WebPortTaken(Misconfigured):
    """The port of the web process is in use."""

    code = "SEMQ-1420"
    remedy = (
        "Stop the program that uses the port, or set http.port to another port. The node starts the web process itself."
    )


class NoHttpSection(Misconfigured):
    """The configuration has no section [http]."""

    code = "SEMQ-1421"
    remedy = "Add [http] to the file; an empty section means port 7480 of this machine."


class ForeignNode(Misconfigured):
    """Another node than that of the configuration answers at its address."""

    code = "SEMQ-1423"
    remedy = "Start `semq web` with the file of the node that answers, or correct node.id or amqp.port in this file."
