"""The section ``[http]`` of the web process."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from semq.access_rights import RightName
from semq.config.defaults import HOST
from semq.config.sections import MIB, Count, Port, Seconds, Section


def _issuer(url: str) -> str:
    """Return a valid issuer. Raises ValueError."""
    parts = urlsplit(url)
    is_loopback = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not ((parts.scheme == "https" and parts.hostname) or is_loopback) or parts.query or parts.fragment:
        raise ValueError("must be https://host/path (http:// only on this machine)")
    return url


class OidcSection(Section):
    """An OpenID Connect provider by which people sign in to the console."""

    issuer: Annotated[str, AfterValidator(_issuer)]
    """name of the provider, exactly as in its metadata: https://host/path"""
    client_id: Annotated[str, Field(min_length=1, max_length=200)]
    """name of this node at the provider, where its redirect address is URL/sign-in/oidc/callback"""
    client_secret: SecretStr | None = None
    """secret of this node at the provider; without it, PKCE alone protects the sign-in"""
    scopes: list[Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,100}$")]] = Field(default=["openid", "profile", "email"])
    """requested scopes; must contain openid"""
    name_claim: str = "preferred_username"
    """claim with the name of the person for the audit log; email only if the provider has verified it"""
    roles_claim: str = "groups"
    """claim whose values determine the roles of the person"""
    roles: dict[str, list[Annotated[str, Field(pattern=r"^(viewer|operator|admin|payload)$")]]]
    """roles by value of the claim roles_claim; people without any of these values cannot sign in"""


class HttpSection(Section):
    """The web process beside the node: console, HTTP API, metrics."""

    host: str = HOST
    """address to listen on; default: loopback"""
    port: Port = 7480
    """port to listen on; 0: any free port"""
    url: str = ""
    """address by which browsers reach the web process, for links; default: made of host and port"""
    hosts: list[Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)$")]] = Field(default=[])
    """host names for which requests are accepted, beside those of url and this machine; "*": any"""
    certificate: Path | None = None
    """PEM file of the certificate and its chain, for https; relative to the file"""
    key: Path | None = None
    """PEM file of the certificate's private key, readable by this user only; relative to the file"""
    client_authorities: Path | None = None
    """PEM file of the authorities whose client certificates are accepted; relative to the file"""
    certificates: dict[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], list[RightName]] = Field(default={})
    """rights of clients, by the SHA-256 fingerprint of their certificate"""
    allow_plain: bool = False
    """allow other machines to connect without TLS: the network can read sessions and tokens"""
    session_s: Seconds = 8 * 3600.0
    """longest time for which a person stays signed in"""
    idle_s: Seconds = 3600.0
    """time without a request after which a person is signed out"""
    first_link_s: Seconds = 24 * 3600.0
    """validity of the one-time link for the first sign-in"""
    requests_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5000.0
    """requests of one user or token per second; further ones get the answer 429"""
    burst: Count = 10_000
    """requests of one user or token that may come at once after a pause"""
    attempts_per_minute: Count = 10
    """failed sign-ins as one user from one address (IPv6: from its /64) in a minute, and ten times as many as any
    user; further ones are refused without a check, except with a password that was right before"""
    max_connections: Count = 1024
    """open connections; for a further one the longest silent one is closed, or it gets the answer 503"""
    max_connections_per_address: Count = 256
    """open connections of one address (IPv6: of its /64); further ones are closed; behind a proxy: max_connections"""
    head_s: Seconds = 10.0
    """longest time for the head of a request; slower clients are disconnected"""
    body_s: Seconds = 30.0
    """longest pause of a client within the body of a request, or while it should read an answer"""
    body_bytes_per_s: Count = 4096
    """least rate of the body of a request, on average over each body_s; slower clients get the answer 408"""
    memory_bytes: Annotated[int, Field(ge=MIB)] = 256 * MIB
    """memory for bodies of requests and answers in progress; further ones wait, or get the answer 503; one user or
    token gets no more than it leaves free"""
    spool_bytes: Annotated[int, Field(ge=MIB)] = 8 * 1024 * MIB
    """disk space for large bodies of requests and answers, in the folder TMPDIR; further ones are refused; one user or
    token gets no more than it leaves free"""
    lease_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """time after which a received document without an acknowledgement is delivered again, unless the request sets it"""
    leases: Annotated[int, Field(ge=1, le=10_000)] = 256
    """documents that one user or token may have requested by polls in progress, or received and not yet acknowledged"""
    streams: Annotated[int, Field(ge=1, le=1000)] = 16
    """largest number of open event streams and long polls of one user or token"""
    event_queues: Annotated[int, Field(ge=1, le=500)] = 16
    """queues of events (GET /api/v1/events?queue=NAME) that the node keeps for one user or token"""
    oidc: OidcSection | None = None
    """sign-in through an OpenID Connect provider; needs the extra `oidc`"""
    audit_days: Annotated[int, Field(ge=1, le=36_500)] = 400
    """retention of the audit log, in days"""
