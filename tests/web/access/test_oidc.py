"""Sign-ins through an OpenID Connect provider that the test runs, with hostile providers and browsers."""

import asyncio
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from platform_node.node import HubNode
from semq.clock import SystemClock
from semq.config.web import HttpSection, OidcSection
from semq.web.transport.server import Server
from tests.web.running import Browser, Site, serving

CLIENT, SECRET = "semq node", "s3cret & more of it: 0123456789"
PERSON = {"sub": "7", "preferred_username": "anna", "groups": ["operators", "choir"]}
EXPECTED_AUTHORIZATION = "Basic " + b64encode(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}".encode()).decode()
ROLES = {"operators": ["operator"], "auditors": ["viewer", "payload"]}


class Provider:
    """An OpenID Connect provider, whose answers a test can change."""

    def __init__(self) -> None:
        self.url = ""
        self.keys = KeySet([ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})])
        self.signs_with: Any = self.keys.keys[0]
        self.header: dict[str, Any] = {"alg": "ES256", "kid": "1"}
        self.more_claims: dict[str, Any] = {}
        self.more_metadata: dict[str, Any] = {}
        self.requests: dict[str, dict[str, list[str]]] = {}  #: code | query of the redirect to the provider
        #: makes the answer with the ID token
        self.answer: Callable[[str], Any] = lambda text: {"access_token": "x", "token_type": "Bearer", "id_token": text}

    async def configuration(self, request: Request) -> Response:
        metadata = {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize?tenant=1",
            "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/keys",
        }  # fmt: skip
        return JSONResponse(metadata | self.more_metadata)

    async def key_set(self, request: Request) -> Response:
        return JSONResponse(self.keys.as_dict(private=False))

    async def exchange(self, request: Request) -> Response:
        form = await request.form()
        query = self.requests.pop(str(form.get("code")), None)
        challenge = urlsafe_b64encode(sha256(str(form["code_verifier"]).encode()).digest()).rstrip(b"=").decode()
        is_right = (
            query is not None
            and request.headers.get("authorization") == EXPECTED_AUTHORIZATION
            and query["code_challenge"] == [challenge]
            and query["redirect_uri"] == [form["redirect_uri"]]
        )
        if not is_right or query is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(SystemClock().wall().timestamp())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": query["nonce"][0]}
        text = self.id_token(claims | PERSON | self.more_claims)
        return JSONResponse(self.answer(text))

    def id_token(self, claims: dict[str, Any]) -> str:
        """Return the signed ID token; an unsigned one if the test has set the algorithm ``none``."""
        if self.header["alg"] == "none":
            parts = [
                urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (self.header, claims)
            ]
            return ".".join([*parts, ""])
        return jwt.encode(self.header, claims, self.signs_with, algorithms=[self.header["alg"]])

    def agree(self, address: str) -> dict[str, str]:
        """Return the query with which the browser returns after a person has agreed at the provider."""
        query = parse_qs(urlsplit(address).query)
        assert query["code_challenge_method"] == ["S256"]
        assert query["tenant"] == ["1"]
        self.requests["a code"] = query
        return {"code": "a code", "state": query["state"][0], "iss": self.url}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    routes = [
        Route("/.well-known/openid-configuration", provider.configuration),
        Route("/keys", provider.key_set),
        Route("/token", provider.exchange, methods=["POST"]),
    ]
    server = Server(HttpSection(port=0), Starlette(routes=routes))
    await server.start()
    provider.url = server.url
    yield provider
    await server.stop()


@asynccontextmanager
async def site_of(hub: HubNode, provider: Provider, **changes: Any) -> AsyncIterator[Site]:
    section = {"issuer": provider.url, "client_id": CLIENT, "client_secret": SECRET, "roles": ROLES}
    async with serving(hub, oidc=OidcSection(**(section | changes)), attempts_per_minute=1000) as site:
        yield site


async def begin_sign_in(browser: Browser, provider: Provider) -> dict[str, str]:
    """Be redirected to the provider and agree there; return the query of the callback."""
    redirect = await browser.get("/sign-in/oidc?next=/account")
    assert redirect.status_code == 303, redirect.text
    assert redirect.headers["location"].startswith(f"{provider.url}/authorize?tenant=1&")
    cookie = redirect.headers["set-cookie"].lower()
    assert "samesite=lax" in cookie
    assert "httponly" in cookie
    return provider.agree(redirect.headers["location"])


async def test_a_person_with_a_role_signs_in(hub: HubNode, provider: Provider) -> None:
    async with site_of(hub, provider) as site:
        browser = await site.browser()
        assert "/sign-in/oidc?next=" in (await browser.get("/sign-in")).text
        callback_query = await begin_sign_in(browser, provider)
        page = await browser.get("/sign-in/oidc/callback", params=callback_query)
        assert page.status_code == 200
        assert 'content="0; url=/account"' in page.text
        assert (await browser.get("/account")).status_code == 200
        assert (await browser.get("/users")).status_code == 403
        assert ("oidc:anna", "sign-in", "done") in await site.audit()
        assert (
            await browser.get("/sign-in/oidc/callback", params=callback_query)
        ).status_code == 400  # a code is valid once


# Case | change to the provider after which a sign-in must be refused
REFUSED: dict[str, Callable[[Provider], None]] = {
    "wrong issuer": lambda provider: provider.more_claims.update(iss="https://elsewhere.example"),
    "wrong audience": lambda provider: provider.more_claims.update(aud="another"),
    "several audiences": lambda provider: provider.more_claims.update(aud=[CLIENT, "another"]),
    "another party": lambda provider: provider.more_claims.update(azp="another"),
    "wrong nonce": lambda provider: provider.more_claims.update(nonce="x"),
    "no nonce": lambda provider: provider.more_claims.update(nonce=None),
    "expired": lambda provider: provider.more_claims.update(exp=int(SystemClock().wall().timestamp()) - 3600),
    "not valid yet": lambda provider: provider.more_claims.update(iat=int(SystemClock().wall().timestamp()) + 3600),
    "expiry is not a number": lambda provider: provider.more_claims.update(exp="never"),
    "no expiry": lambda provider: provider.more_claims.update(exp=None),
    "no subject": lambda provider: provider.more_claims.update(sub=""),
    "alg none": lambda provider: provider.header.update(alg="none"),
    "another key": lambda provider: setattr(provider, "signs_with", ECKey.generate_key("P-256", {"kid": "1"})),
    "a key of the attacker": lambda provider: setattr(provider, "signs_with", RSAKey.generate_key(2048, {"kid": "9"})),
    "the secret as key": lambda provider: vars(provider).update(
        header={"alg": "HS256"}, signs_with=OctKey.import_key(SECRET)
    ),
    "no token": lambda provider: setattr(provider, "answer", lambda text: {"access_token": "x"}),
    "a truncated token": lambda provider: setattr(provider, "answer", lambda text: {"id_token": text[:-9]}),
    "a token that is no text": lambda provider: setattr(provider, "answer", lambda text: {"id_token": {"a": 1}}),
    "no role": lambda provider: provider.more_claims.update(groups=["choir"]),
    "roles of another form": lambda provider: provider.more_claims.update(groups={"operators": 1}),
    "no name": lambda provider: provider.more_claims.update(preferred_username=None),
    "a name with control characters": lambda provider: provider.more_claims.update(preferred_username="a\nb"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_unacceptable_id_token_is_refused(hub: HubNode, provider: Provider, name: str) -> None:
    if name == "a key of the attacker":
        provider.header["alg"] = "RS256"
    REFUSED[name](provider)
    async with site_of(hub, provider) as site:
        browser = await site.browser()
        answer = await browser.get("/sign-in/oidc/callback", params=await begin_sign_in(browser, provider))
        assert (answer.status_code, "SEMQ-1407" in answer.text) == (400, True), answer.text
        assert (await browser.get("/account")).status_code == 303
        assert [outcome for _, act, outcome in await site.audit() if act == "sign-in"] == ["refused"]


async def test_an_answer_that_does_not_belong_to_the_sign_in_is_refused(hub: HubNode, provider: Provider) -> None:
    async with site_of(hub, provider) as site:
        browser, other_browser = await site.browser(), await site.browser()
        for change in ({"state": "x"}, {"iss": "https://elsewhere.example"}, {"code": "another"}):
            callback_query = await begin_sign_in(browser, provider)
            answer = await browser.get("/sign-in/oidc/callback", params=callback_query | change)
            assert (answer.status_code, "SEMQ-1407" in answer.text) == (400, True), change
        callback_query = await begin_sign_in(browser, provider)
        assert (await other_browser.get("/sign-in/oidc/callback", params=callback_query)).status_code == 400
        assert (await browser.get("/account")).status_code == 303


async def test_a_refusal_by_the_provider_is_shown(hub: HubNode, provider: Provider) -> None:
    async with site_of(hub, provider) as site:
        browser = await site.browser()
        callback_query = await begin_sign_in(browser, provider)
        del callback_query["code"]
        answer = await browser.get("/sign-in/oidc/callback", params=callback_query | {"error": "access_denied"})
        assert (answer.status_code, "access_denied" in answer.text) == (400, True)
        assert (await browser.get("/account")).status_code == 303


async def test_an_email_address_must_be_verified_by_the_provider(hub: HubNode, provider: Provider) -> None:
    async with site_of(hub, provider, name_claim="email") as site:
        for verified, status in ((False, 400), ("true", 400), (True, 200)):
            provider.more_claims = {"email": "anna@bank.example", "email_verified": verified}
            browser = await site.browser()
            callback_query = await begin_sign_in(browser, provider)
            assert (await browser.get("/sign-in/oidc/callback", params=callback_query)).status_code == status, verified


async def test_new_keys_of_the_provider_are_found(
    hub: HubNode, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.web.access.oidc.KEYS_S_MIN", 0.0)
    async with site_of(hub, provider) as site:
        for number in ("1", "2"):
            provider.signs_with = ECKey.generate_key("P-256", {"kid": number, "use": "sig"})
            provider.keys, provider.header = KeySet([provider.signs_with]), {"alg": "ES256", "kid": number}
            browser = await site.browser()
            callback_query = await begin_sign_in(browser, provider)
            assert (await browser.get("/sign-in/oidc/callback", params=callback_query)).status_code == 200, number


@pytest.mark.parametrize(
    "metadata",
    [{"issuer": "https://elsewhere.example"}, {"jwks_uri": None, "token_endpoint": 3}, {"more": "x" * (2 << 20)}],
)
async def test_a_provider_with_wrong_metadata_counts_as_unavailable(
    hub: HubNode, provider: Provider, metadata: dict[str, Any]
) -> None:
    provider.more_metadata = metadata
    async with site_of(hub, provider) as site:
        browser = await site.browser()
        answer = await browser.get("/sign-in/oidc")
        if answer.status_code == 303:
            answer = await browser.get("/sign-in/oidc/callback", params=provider.agree(answer.headers["location"]))
        assert (answer.status_code, "SEMQ-1413" in answer.text) == (503, True)


async def test_the_number_of_sign_ins_in_progress_is_bounded(
    hub: HubNode, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.web.access.oidc.PENDING_MAX", 3)
    async with site_of(hub, provider) as site:
        browser = await site.browser()
        await asyncio.gather(*[browser.get("/sign-in/oidc") for _ in range(9)])
        assert site.web.oidc is not None
        assert len(site.web.oidc._pending) == 3
