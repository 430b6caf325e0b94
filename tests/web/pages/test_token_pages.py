"""The page of tokens: a token is shown once, stored as a hash, and can be revoked."""

import re

from platform_node.node import HubNode
from semq.service.operations.tokens import token_hash
from semq.store.accounts import tokens
from tests.web.running import PASSWORD, serving


async def test_a_token_is_shown_once_and_can_be_revoked(hub: HubNode) -> None:
    async with serving(hub) as site:
        admin = await site.signed_in("admin")
        page = await admin.post_form("/tokens/create", name="<erp>", scopes=["submit", "viewer"], days="1")
        text = re.search(r'class="secret">(semq_[^<]+)<', page.text)
        assert text is not None
        assert "&lt;erp&gt;" in page.text
        assert text[1] not in (await admin.get("/tokens")).text
        (token,) = await site.web.database.read(tokens, 10)
        assert (token.hash, token.made_by) == (token_hash(text[1]), "user1 via guest")
        visitor = await site.web.tokens.visitor(text[1], "")
        assert visitor is not None
        assert visitor.may("submit")
        assert not visitor.may("operator")
        assert (await admin.post_form("/tokens/revoke", id=token.id)).status_code == 303
        assert await site.web.tokens.visitor(text[1], "") is None
        assert [act for _, act, _ in await site.audit("token")] == ["token.create"] * 2 + ["token.revoke"] * 2


async def test_a_token_needs_a_name_and_scopes(hub: HubNode) -> None:
    async with serving(hub) as site:
        admin = await site.signed_in("admin")
        good = {"name": "erp", "scopes": ["submit"], "days": "1"}
        faults: list[dict[str, object]] = [{"name": ""}, {"name": "a\nb"}, {"scopes": []}, {"scopes": ["root"]}]
        faults += [{"days": days} for days in ("x", "-1", "nan")]
        for fault in faults:
            assert (await admin.post_form("/tokens/create", **(good | fault))).status_code == 400, fault
        assert await site.web.database.read(tokens, 10) == []


async def test_only_users_with_the_payload_right_grant_it(hub: HubNode) -> None:
    async with serving(hub) as site:
        payload_admin, admin = await site.signed_in("admin", "payload"), await site.signed_in("admin")
        program = await site.program("admin")
        for scope in ("payload", "receive"):
            assert (await admin.post_form("/tokens/create", name="x", scopes=[scope])).status_code == 403, scope
            arguments = {"name": "x", "scopes": ["submit", scope]}
            assert (await program.post("/token/create", json=arguments)).status_code == 403, scope
        user = {"name": "eve", "password": PASSWORD}
        assert (await admin.post_form("/users/add", **user, roles=["viewer", "payload"])).status_code == 403
        assert (await admin.post_form("/users/add", **user, roles=["viewer"])).status_code == 303
        change = {"name": "eve", "act": "roles", "roles": ["payload"]}
        assert (await admin.post_form("/users/change", **change)).status_code == 403
        assert (await payload_admin.post_form("/users/change", **change)).status_code == 303
        reset = {"name": "eve", "act": "password", "password": PASSWORD}
        assert (await admin.post_form("/users/change", **reset)).status_code == 403
        assert (await payload_admin.post_form("/users/change", **reset)).status_code == 303
        assert (await admin.post_form("/tokens/create", name="x", scopes=["submit"])).status_code == 200
        assert ("user2", "token.create", "refused") in await site.audit("token")
