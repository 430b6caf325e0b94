"""Users: administrators add, change and disable users; users change their own passwords."""

import pytest

from platform_node.node import HubNode
from tests.web.access.test_sign_in import add_user, sign_in
from tests.web.running import PASSWORD, Browser, Site, serving


async def browser_of_ann(site: Site) -> Browser:
    browser = await site.browser()
    secret = await site.web.sessions.open("ann", None, "127.0.0.1")
    browser.cookies.set(site.web.sessions.cookie, secret)
    await browser.look()
    return browser


@pytest.mark.parametrize("role", ["viewer", "operator", "payload"])
async def test_only_administrators_see_and_change_users_and_tokens(hub: HubNode, role: str) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("viewer", role)
        for path in ("/users", "/tokens"):
            assert (await browser.get(path)).status_code == 403
        for path in ("/users/add", "/users/change", "/tokens/create", "/tokens/revoke"):
            answer = await browser.post_form(path, name="eve", password=PASSWORD, roles=["admin"], scopes=["admin"])
            assert answer.status_code == 403
        assert await site.users() == {}


async def test_a_change_of_roles_takes_effect_at_once(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site)
        browser, admin = await browser_of_ann(site), await site.signed_in("admin")
        assert (await browser.get("/users")).status_code == 200
        changed = await admin.post_form("/users/change", name="ann", act="roles", roles=["viewer"])
        assert changed.status_code == 303
        assert (await browser.get("/users")).status_code == 403


async def test_a_disabled_user_is_signed_out_and_cannot_sign_in(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site)
        browser, admin = await browser_of_ann(site), await site.signed_in("admin")
        assert (await admin.post_form("/users/change", name="ann", act="disable")).status_code == 303
        assert (await browser.get("/account")).headers["location"] == "/sign-in?next=%2Faccount"
        assert (await sign_in(site, "ann", PASSWORD))[0] == 401
        assert (await admin.post_form("/users/change", name="ann", act="enable")).status_code == 303
        assert (await sign_in(site, "ann", PASSWORD))[0] == 303


async def test_users_must_give_their_present_password_to_change_it(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site, "viewer")
        browser, other_browser = await browser_of_ann(site), await browser_of_ann(site)
        wrong = await browser.post_form("/account/password", old="wrong", new="another password")
        assert wrong.status_code == 400
        short = await browser.post_form("/account/password", old=PASSWORD, new="short")
        assert short.status_code == 400
        changed = await browser.post_form("/account/password", old=PASSWORD, new="another password")
        assert changed.status_code == 303
        assert (await browser.get("/account")).status_code == 200
        assert (await other_browser.get("/account")).status_code == 303
        assert (await sign_in(site, "ann", PASSWORD))[0] == 401
        assert (await sign_in(site, "ann", "another password"))[0] == 303


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "", "password": PASSWORD, "roles": ["viewer"]},
        {"name": "<b>", "password": PASSWORD, "roles": ["viewer"]},
        {"name": "bob", "password": "short", "roles": ["viewer"]},
        {"name": "bob", "password": PASSWORD, "roles": []},
        {"name": "bob", "password": PASSWORD, "roles": ["root"]},
        {"name": "ann", "password": PASSWORD, "roles": ["viewer"]},
    ],
)
async def test_a_user_needs_a_new_name_a_long_password_and_known_roles(hub: HubNode, fields: dict[str, str]) -> None:
    async with serving(hub) as site:
        await add_user(site)
        admin = await site.signed_in("admin")
        assert (await admin.post_form("/users/add", **fields)).status_code == 400
        assert await site.users() == {"ann": ("admin",)}


async def test_an_administrator_cannot_remove_its_own_rights(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site)
        browser = await browser_of_ann(site)
        for act in ("roles", "disable"):
            assert (await browser.post_form("/users/change", name="ann", act=act, roles=["viewer"])).status_code == 400
        assert await site.users() == {"ann": ("admin",)}


async def test_an_unknown_act_is_refused_and_not_recorded(hub: HubNode) -> None:
    async with serving(hub) as site:
        await add_user(site)
        admin = await site.signed_in("admin")
        assert (await admin.post_form("/users/change", name="ann", act="remove")).status_code == 400
        assert await site.audit("user.remove") == []


async def test_acts_are_recorded_without_passwords(hub: HubNode) -> None:
    async with serving(hub) as site:
        admin = await site.signed_in("admin")
        await admin.post_form("/users/add", name="bob", password=PASSWORD, roles=["viewer"])
        await admin.post_form("/users/change", name="bob", act="password", password="another password")
        assert await site.audit("user") == [
            ("user1", "user.add", "asked"),
            ("user1", "user.add", "done"),
            ("user1", "user.password", "asked"),
            ("user1", "user.password", "done"),
        ]
