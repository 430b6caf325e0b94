"""Sign-in by the one-time link and by passwords; cookies, session fixation, attempts."""

import asyncio
import re
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from platform_node.node import HubNode
from semq.config.web import HttpSection
from semq.service.credentials import passwords
from semq.store.accounts import Account, add_account, note_session_use
from semq.web.access.secret import hash_of
from semq.web.access.sign_in import own_path
from tests.service.inprocess import HUB_CONFIG, InProcess
from tests.web.running import PASSWORD, Site, serving

MINUTE = timedelta(minutes=1)
WITH_USERS = HUB_CONFIG.replace(
    "[amqp]\nport = 0",
    '[amqp]\nport = 0\n[amqp.users]\nops = "swordfish swordfish"\nerp = { password = "erp erp erp", admin = false }',
)


async def add_user(site: Site, *roles: str) -> None:
    """Add the user ann, by default an administrator."""
    account = Account("ann", await passwords.new_hash(PASSWORD), roles or ("admin",), site.web.clock.wall(), "test")
    await site.web.database.write(add_account, account)


async def sign_in(site: Site, name: str, password: str, **more: str) -> tuple[int, str]:
    """Post the form of the sign-in in a new browser; return the status and the cookies."""
    browser = await site.browser()
    await browser.look("/sign-in")
    page = await browser.get("/sign-in")
    token = re.findall(r'name="csrf" value="([0-9a-f]+)"', page.text)[-1]
    answer = await browser.post("/sign-in", data={"csrf": token, "name": name, "password": password, **more})
    return answer.status_code, answer.headers.get("set-cookie", "")


async def test_the_first_sign_in_is_by_a_link_that_works_once(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser, other_browser = await site.browser(), await site.browser()
        assert (await browser.head(site.link)).status_code == 400  # a preview does not consume the link
        answer = await browser.get(site.link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/users")
        page = await browser.look("/users")
        assert page.status_code == 200
        assert (await other_browser.get(site.link)).status_code == 403
        added = await browser.post_form("/users/add", name="ann", password=PASSWORD, roles=["admin", "payload"])
        assert added.status_code == 303
        assert await site.users() == {"ann": ("admin", "payload")}
        assert (await sign_in(site, "ann", PASSWORD))[0] == 303
        assert await site.audit() == [
            ("first sign-in", "sign-in", "done"),
            ("first sign-in", "user.add", "asked"),
            ("first sign-in", "user.add", "done"),
            ("ann", "sign-in", "done"),
        ]


async def test_the_language_is_chosen_before_the_sign_in_and_the_wanted_page_is_kept(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.browser()
        page = await browser.get("/sign-in?next=%2Fusers")
        token = re.findall(r'name="csrf" value="([0-9a-f]+)"', page.text)[-1]
        wanted = re.findall(r'name="next" value="([^"]+)"', page.text)
        assert wanted == ["/sign-in?next=%2Fusers", "/users"]
        chosen = await browser.post("/language", data={"csrf": token, "next": wanted[0], "language": "zh"})
        assert (chosen.status_code, chosen.headers["location"]) == (303, wanted[0])
        assert "密码" in (await browser.get(wanted[0])).text


async def test_parallel_sign_ins_count_like_consecutive_ones(hub: HubNode) -> None:
    async with serving(hub, attempts_per_minute=2) as site:
        await add_user(site)
        answers = await asyncio.gather(*(sign_in(site, "ann", "wrong wrong wrong") for _ in range(8)))
        assert 2 <= [status for status, _ in answers].count(401) <= 3


async def test_no_link_is_offered_when_somebody_can_sign_in(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site)
    async with serving(hub) as site:
        assert urlsplit(site.link).path == "/"


async def test_without_a_session_the_sign_in_is_shown(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.browser()
        answer = await browser.get("/users", params={"q": "a b"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fusers%3Fq%3Da%2Bb")
        assert (await browser.post("/users/add")).status_code == 403


async def test_a_password_signs_in_and_each_failure_looks_the_same(hub: HubNode) -> None:
    async with serving(hub, attempts_per_minute=100) as site:
        await add_user(site)
        status, cookie = await sign_in(site, "ann", PASSWORD)
        assert status == 303
        [of_session] = [each for each in re.split(", (?=[^ ;]+=)", cookie) if each.startswith(site.web.sessions.cookie)]
        assert "HttpOnly" in of_session
        assert "SameSite=strict" in of_session
        for name, password in (
            ("ann", "wrong"),
            ("bob", PASSWORD),
            ("ann", ""),
            ("guest", "guest"),
            ("ann", "x" * 2000),
        ):
            status, cookie = await sign_in(site, name, password)
            assert (status, site.web.sessions.cookie + "=" in cookie) == (401, False)


UNICODE_ESCAPE = "multipart/form-data; boundary=b; charset=unicode_escape"
SURROGATES = "".join(
    f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n\\ud800\r\n' for name in ("name", "password")
)


@pytest.mark.parametrize("form", ["NUL", "surrogates"])
async def test_a_name_that_the_database_cannot_store_is_refused(hub: HubNode, form: str) -> None:
    async with serving(hub) as site:
        browser = await site.browser()
        await browser.look("/sign-in")
        page = await browser.get("/sign-in")
        token = re.findall(r'name="csrf" value="([0-9a-f]+)"', page.text)[-1]
        if form == "NUL":
            answer = await browser.post("/sign-in", data={"csrf": token, "name": "a\0b", "password": PASSWORD})
        else:
            headers = {"x-csrf-token": token, "content-type": UNICODE_ESCAPE}
            answer = await browser.post("/sign-in", content=f"{SURROGATES}--b--\r\n".encode(), headers=headers)
        assert (answer.status_code, "SEMQ-1404" in answer.text) == (400, True)


async def test_after_too_many_failures_no_password_is_checked(hub: HubNode) -> None:
    async with serving(hub, attempts_per_minute=3) as site:
        await add_user(site)
        assert [(await sign_in(site, "ann", "wrong"))[0] for _ in range(4)] == [401, 401, 401, 429]
        assert (await sign_in(site, "ann", PASSWORD))[0] == 429


async def test_guesses_do_not_keep_out_others_at_the_same_address_or_those_who_have_signed_in_before(
    hub: HubNode,
) -> None:
    async with serving(hub, attempts_per_minute=2) as site:
        await add_user(site)
        assert (await sign_in(site, "ann", PASSWORD))[0] == 303
        assert [(await sign_in(site, "ann", "wrong"))[0] for _ in range(3)] == [401, 401, 429]
        assert [(await sign_in(site, "bob", "wrong"))[0] for _ in range(3)] == [401, 401, 429]
        assert (await sign_in(site, "ann", PASSWORD))[0] == 303


async def test_every_refused_sign_in_costs_one_check_of_a_hash_and_no_login_at_the_node(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []
    check = passwords.check_password

    def counted(password: str, stored: str) -> bool:
        checks.append(stored)
        return check(password, stored)

    monkeypatch.setattr(passwords, "check_password", counted)
    hub = await inprocess.hub(WITH_USERS)
    async with serving(hub, attempts_per_minute=100) as site:
        await add_user(site)
        disabled = Account("dan", None, ("admin",), site.web.clock.wall(), "test", disabled_at=site.web.clock.wall())
        await site.web.database.write(add_account, disabled)
        for number, name in enumerate(("ann", "dan", "ops", "erp", "nobody"), 1):
            assert (await sign_in(site, name, "wrong"))[0] == 401
            assert len(checks) == number, name
    assert hub.server.counters.logins_refused == 0


async def test_administrators_of_the_node_sign_in_with_their_password_of_the_node(inprocess: InProcess) -> None:
    async with serving(await inprocess.hub(WITH_USERS)) as site:
        assert (await sign_in(site, "ops", "swordfish"))[0] == 401
        assert (await sign_in(site, "erp", "erp erp erp"))[0] == 401  # not an administrator of the node
        assert await site.users() == {}
        assert (await sign_in(site, "ops", "swordfish swordfish"))[0] == 303
        assert await site.users() == {"ops": ("admin", "payload")}


async def test_a_session_from_before_the_sign_in_is_not_valid(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site)
        browser = await site.browser()
        browser.cookies.set(site.web.sessions.cookie, "chosen-by-somebody-else")
        page = await browser.get("/sign-in")
        token = re.findall(r'name="csrf" value="([0-9a-f]+)"', page.text)[-1]
        answer = await browser.post("/sign-in", data={"csrf": token, "name": "ann", "password": PASSWORD})
        assert answer.status_code == 303
        secret = answer.cookies[site.web.sessions.cookie]
        assert secret != "chosen-by-somebody-else"
        assert await site.web.sessions.visitor("chosen-by-somebody-else", "") is None
        assert await site.web.sessions.visitor(secret, "") is not None


async def test_an_idle_session_ends(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("viewer")
        secret = browser.cookies[site.web.sessions.cookie]
        idle = timedelta(seconds=HttpSection().idle_s)
        for since, is_valid in ((idle - MINUTE, True), (idle + MINUTE, False)):
            await site.web.database.write(note_session_use, hash_of(secret), site.web.clock.wall() - since)
            site.web.sessions.forget()
            assert (await site.web.sessions.visitor(secret, "") is not None) is is_valid


async def test_signing_out_ends_the_session_at_the_server(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("viewer")
        secret = browser.cookies[site.web.sessions.cookie]
        assert (await browser.post_form("/sign-out")).status_code == 303
        assert await site.web.sessions.visitor(secret, "") is None


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/msg?key=a", "/msg?key=a"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x=1", "/"),
        ("", "/"),
    ],
)
def test_the_sign_in_does_not_redirect_to_another_site(path: str, own: str) -> None:
    assert own_path(path) == own
