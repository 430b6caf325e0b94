"""Sign-in through an OpenID Connect provider: authorization code with PKCE, state and nonce; claims become roles.

This module needs ``joserfc`` (extra ``oidc``); it is imported if the configuration has a section
[http.oidc]. Sign-ins in progress are kept in memory; a cookie binds each to one browser. The roles in the ID token
apply until the end of the session.
"""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from ssl import SSLContext
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from semq.clock import Clock
from semq.config.web import OidcSection
from semq.web.access.limits import OIDC_SIGN_IN_S
from semq.web.access.secret import hash_of, is_same, new_secret
from semq.web.errors import OidcAway, OidcRefused

# Algorithms of signatures of ID tokens
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]
PENDING_MAX = 1000  # sign-ins in progress
CACHE_S = 3600.0  # lifetime of fetched metadata and keys
KEYS_S_MIN = 30.0  # shortest interval between two requests for the keys
ANSWER_MAX, TIMEOUT_S = 1 << 20, 10.0  # bytes of an answer, and the longest wait for it
SKEW_S = 60  # tolerated difference of the clocks
TEXT_MAX = 100  # characters of a text from the provider
Claims = Mapping[str, Any]  #: JSON of the provider, before it is checked


class PendingSignIn(Struct, frozen=True):
    """A sign-in in progress."""

    browser_hash: bytes  #: of the secret in the browser's cookie
    nonce: str
    verifier: str
    redirect: str  #: address of the callback
    next_path: str  #: path of the page after the sign-in
    began_at: float  #: monotonic


class Person(Struct, frozen=True):
    """The person who has signed in."""

    name: str
    roles: tuple[str, ...]


class OidcProvider:
    """The provider, and the sign-ins in progress."""

    def __init__(self, section: OidcSection, clock: Clock) -> None:
        self._section = section
        self._clock = clock
        self._pending: OrderedDict[str, PendingSignIn] = OrderedDict()  #: parameter ``state`` | sign-in
        self._metadata: tuple[float, Claims] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._fetch_lock = asyncio.Lock()

    async def begin(self, browser_secret: str, redirect: str, next_path: str) -> str:
        """Begin a sign-in; return the address to which the browser goes. Raises OidcAway.

        ``browser_secret``: from the browser's cookie.
        """
        metadata = await self._provider_metadata()
        now = self._clock.monotonic()
        state, nonce, verifier = new_secret(), new_secret(), new_secret()
        self._pending[state] = PendingSignIn(hash_of(browser_secret), nonce, verifier, redirect, next_path, now)
        while len(self._pending) > PENDING_MAX or now - next(iter(self._pending.values())).began_at > OIDC_SIGN_IN_S:
            self._pending.popitem(last=False)
        parameters = {
            "response_type": "code", "client_id": self._section.client_id, "redirect_uri": redirect,
            "scope": " ".join(self._section.scopes), "state": state, "nonce": nonce,
            "code_challenge": _challenge(verifier), "code_challenge_method": "S256",
        }  # fmt: skip
        address = str(metadata["authorization_endpoint"])
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(parameters)}"

    async def complete(self, browser_secret: str, query: Mapping[str, str]) -> tuple[Person, str]:
        """Complete a sign-in; return the person and ``next_path``. Raises OidcRefused, OidcAway.

        ``query``: parameters with which the provider sent the browser back.
        """
        pending = self._pending.pop(query.get("state", ""), None)
        is_late = pending is not None and self._clock.monotonic() - pending.began_at > OIDC_SIGN_IN_S
        if pending is None or is_late or hash_of(browser_secret) != pending.browser_hash:
            raise OidcRefused("This sign-in did not begin in this browser, or it took too long.")
        if query.get("iss", self._section.issuer) != self._section.issuer:
            raise OidcRefused("The answer comes from another provider.")
        if "code" not in query:
            raise OidcRefused("The provider did not sign you in.", error=query.get("error", "")[:TEXT_MAX])
        claims = await self._redeem_code(pending, query["code"])
        return self._person(claims), pending.next_path

    async def _redeem_code(self, pending: PendingSignIn, code: str) -> Claims:
        metadata, section = await self._provider_metadata(), self._section
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": pending.redirect,
            "client_id": section.client_id, "code_verifier": pending.verifier,
        }  # fmt: skip
        auth = None
        if section.client_secret is not None:  # encoded as in a form (RFC 6749, 2.3.1)
            auth = httpx.BasicAuth(quote_plus(section.client_id), quote_plus(section.client_secret.get_secret_value()))
        status, token = await _request("POST", metadata["token_endpoint"], data=form, auth=auth)
        if status != 200:
            raise OidcRefused(
                "The provider does not accept the code.", error=str(token.get("error", status))[:TEXT_MAX]
            )
        text = token.get("id_token")
        if not isinstance(text, str):
            raise OidcRefused("The provider sent no ID token.")
        return self._check_claims(await self._verify_and_decode(text), pending.nonce)

    async def _verify_and_decode(self, text: str) -> Claims:
        """Check the signature of an ID token; return the claims. If no known key fits, fetch the keys again."""
        try:
            return dict(jwt.decode(text, await self._key_set(CACHE_S), algorithms=ALGORITHMS).claims)
        except (JoseError, ValueError):
            try:
                return dict(jwt.decode(text, await self._key_set(KEYS_S_MIN), algorithms=ALGORITHMS).claims)
            except (JoseError, ValueError) as error:
                raise OidcRefused("The ID token is not signed by the provider.", fault=str(error)[:TEXT_MAX]) from error

    def _check_claims(self, claims: Claims, nonce: str) -> Claims:
        """Check that claims belong to this sign-in (OpenID Connect Core 1.0, 3.1.3.7)."""
        section, now = self._section, int(self._clock.wall().timestamp())
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        times = [claims.get("exp"), claims.get("iat"), claims.get("nbf", 0)]
        if any(isinstance(time, bool) or not isinstance(time, int | float) for time in times):
            raise OidcRefused("The ID token does not state its times (exp, iat) as numbers.")
        expires, issued, begins = times
        faults = {
            "issuer": claims.get("iss") != section.issuer,
            "audience": section.client_id not in audiences,
            "authorized party": claims.get("azp", section.client_id) != section.client_id,
            "several audiences": len(audiences) > 1 and "azp" not in claims,
            "time": not (max(issued, begins) - SKEW_S <= now < expires + SKEW_S),
            "nonce": not is_same(str(claims.get("nonce")), nonce),
            "subject": not claims.get("sub"),
        }
        if wrong := [name for name, is_wrong in faults.items() if is_wrong]:
            raise OidcRefused("The ID token is not for this sign-in.", wrong=", ".join(wrong))
        return claims

    def _person(self, claims: Mapping[str, object]) -> Person:
        section = self._section
        name = claims.get(section.name_claim)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= TEXT_MAX:
            raise OidcRefused(f"The ID token has no usable claim {section.name_claim}.")
        if section.name_claim == "email" and claims.get("email_verified") is not True:
            raise OidcRefused("The provider has not verified your e-mail address.")
        claimed = claims.get(section.roles_claim)
        values = claimed if isinstance(claimed, list) else [claimed]
        roles = sorted({role for value in values if isinstance(value, str) for role in section.roles.get(value, [])})
        if not roles:
            raise OidcRefused("The provider knows you, but you have no role here.", name=name)
        return Person(f"oidc:{name}", tuple(roles))

    async def _provider_metadata(self) -> Claims:
        async with self._fetch_lock:
            if self._metadata is None or self._clock.monotonic() - self._metadata[0] > CACHE_S:
                metadata = await _fetch_object(f"{self._section.issuer.rstrip('/')}/.well-known/openid-configuration")
                if metadata.get("issuer") != self._section.issuer:
                    raise OidcAway("The provider's metadata has another issuer than http.oidc.issuer.")
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    _check_address(metadata.get(name), self._section.issuer)
                self._metadata = self._clock.monotonic(), metadata
            return self._metadata[1]

    async def _key_set(self, age_s_max: float) -> KeySet:
        """Return the keys of the provider, fetched at most ``age_s_max`` ago."""
        metadata = await self._provider_metadata()
        async with self._fetch_lock:
            if self._keys is None or self._clock.monotonic() - self._keys[0] > age_s_max:
                keys = await _fetch_object(metadata["jwks_uri"])
                try:
                    self._keys = self._clock.monotonic(), KeySet.import_key_set(keys)  # type: ignore[arg-type]
                except (JoseError, ValueError, KeyError, TypeError) as error:
                    raise OidcAway("The keys of the provider cannot be read.") from error
            return self._keys[1]


def _check_address(address: object, issuer: str) -> None:
    """Refuse addresses without TLS, unless the issuer has none (tests)."""
    if not isinstance(address, str):
        raise OidcAway("The provider does not name its addresses.")
    if urlsplit(address).scheme != "https" and urlsplit(issuer).scheme == "https":
        raise OidcAway("An address of the provider has no TLS.", address=address[:TEXT_MAX])


def _challenge(verifier: str) -> str:
    """Return the challenge of PKCE (RFC 7636, S256)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@cache
def _trust() -> SSLContext:
    """Return the TLS context, which all requests share, because making one blocks the process for 15 ms."""
    return httpx.create_ssl_context(trust_env=False)


async def _fetch_object(address: str) -> Claims:
    status, content = await _request("GET", address)
    if status != 200:
        raise OidcAway(status=status)
    return content


async def _request(method: str, address: str, **more: Any) -> tuple[int, Claims]:
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(verify=_trust(), timeout=TIMEOUT_S, trust_env=False) as client,
            client.stream(method, address, **more) as answer,
        ):
            body = b""
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > ANSWER_MAX:
                    raise OidcAway("An answer of the provider is too large.")
            status = answer.status_code
        content = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
        raise OidcAway(fault=type(error).__name__) from error
    if not isinstance(content, dict):
        raise OidcAway("The provider did not answer with a JSON object.")
    return status, content
