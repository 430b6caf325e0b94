"""The sections of the web process, and of the sign-in through an OpenID Connect provider."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from semq.access_rights import RightName
from semq.config.defaults import HOST
from semq.config.sections import MIB, Count, Port, Seconds, Section


def _issuer(url: str) -> str:
    """Check the name of a provider. Raises ValueError."""
    parts = urlsplit(url)
    is_near = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not ((parts.scheme == "https" and parts.hostname) or is_near) or parts.query or parts.fragment:
        raise ValueError("must be https://host/path (http:// only on this machine)")
    return url


class OidcSection(Section):
    """An OpenID Connect provider, through which people sign in to the console."""

    issuer: Annotated[str, AfterValidator(_issuer)]
    """its name, exactly as it writes it: https://host/path"""
    client_id: Annotated[str, Field(min_length=1, max_length=200)]
    """name of this node at the provider; its redirect address there is URL/sign-in/oidc/callback"""
    client_secret: SecretStr | None = None
    """secret of this node at the provider; without one PKCE alone protects the sign-in"""
    scopes: list[Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,100}$")]] = Field(default=["openid", "profile", "email"])
    """the requested scopes; openid must be among them"""
    name_claim: str = "preferred_username"
    """claim that names the person in the audit log; email only if the provider has verified it"""
    roles_claim: str = "groups"
    """claim whose values have roles here"""
    roles: dict[str, list[Annotated[str, Field(pattern=r"^(viewer|operator|admin|payload)$")]]]
    """value of that claim = roles; people with none of these values cannot sign in"""


class HttpSection(Section):
    """The web process beside the node: console, HTTP API, metrics."""

    host: str = HOST
    """address to listen on; default: loopback"""
    port: Port = 7480
    """0: any free port"""
    url: str = ""
    """address under which browsers reach it, for links; default: made of host and port"""
    hosts: list[Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)$")]] = Field(default=[])
    """further host names of accepted requests ("*": any), beside those of url and this machine"""
    certificate: Path | None = None
    """PEM file of the certificate and its chain: serve https; relative to the file"""
    key: Path | None = None
    """PEM file of its private key, readable by this user only; relative to the file"""
    client_authorities: Path | None = None
    """PEM file of the authorities whose client certificates are accepted; relative to the file"""
    certificates: dict[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], list[RightName]] = Field(default={})
    """rights of clients by the SHA-256 fingerprint of their certificate"""
    allow_plain: bool = False
    """allow connections from other machines without TLS: the network can read sessions and tokens"""
    session_s: Seconds = 8 * 3600.0
    """longest time that a person stays signed in"""
    idle_s: Seconds = 3600.0
    """time without a request after which a person is signed out"""
    first_link_s: Seconds = 24 * 3600.0
    """time for which the one-time link for the first sign-in can be used"""
    requests_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5000.0
    """requests of one user or token per second; further ones are answered 429"""
    burst: Count = 10_000
    """requests that may come in a burst after a pause"""
    attempts_per_minute: Count = 10
    """failed sign-ins from one address; further ones are refused before the password is checked"""
    max_connections: Count = 1024
    """further connections are refused with 503"""
    max_connections_per_address: Count = 256
    """connections from one address; further ones are closed. Behind a proxy: as many as max_connections"""
    head_s: Seconds = 10.0
    """time for the head of a request; slower clients are disconnected"""
    body_s: Seconds = 30.0
    """longest pause within the body of a request"""
    memory_bytes: Annotated[int, Field(ge=MIB)] = 256 * MIB
    """memory for bodies of requests in progress; further ones wait"""
    spool_bytes: Annotated[int, Field(ge=MIB)] = 8 * 1024 * MIB
    """disk for large bodies of requests and answers in progress, in the folder TMPDIR; further ones are refused"""
    lease_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """time in which a received document must be acknowledged before it is delivered again"""
    leases: Annotated[int, Field(ge=1, le=10_000)] = 256
    """documents of one inbox that are received and not yet acknowledged"""
    streams: Annotated[int, Field(ge=1, le=1000)] = 16
    """open event streams of one user or token"""
    oidc: OidcSection | None = None
    """sign-in through an OpenID Connect provider; needs `pip install semq[oidc]`"""
    audit_days: Annotated[int, Field(ge=1, le=36_500)] = 400
    """retention of the audit log, in days"""
