"""Callers of the API: tokens with scopes, users of the node, sessions; each within its rights."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta

import httpx
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.access_rights import AccessRole
from semq.service.operations.operation import Kind
from semq.transport.spool import SpooledBody
from semq.web.api import authentication
from tests.clocks import ShiftedClock
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked
from tests.waiting import until
from tests.web.running import serving

USERS = """
[amqp.users]
ops = "swordfish swordfish"
[amqp.users.erp]
password = "erp erp erp"
permissions = { "/" = { write = "^semq$", read = "^amq.gen", configure = "^amq.gen" } }
[amqp.users.shop]
password = "shop shop shop"
permissions = { "/" = { read = "^semq.inbox" } }
"""

# Role of a token | roles of the operations that it may run
INCLUDED = {
    AccessRole.VIEWER: {AccessRole.VIEWER},
    AccessRole.OPERATOR: {AccessRole.VIEWER, AccessRole.OPERATOR},
    AccessRole.ADMIN: {AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.ADMIN},
    AccessRole.PAYLOAD: {AccessRole.PAYLOAD},
}
CHECKED_ROWS: set[tuple[str, Kind, AccessRole]] = set()


async def test_without_a_valid_token_every_request_is_refused(hub: HubNode) -> None:
    async with serving(hub, attempts_per_minute=100) as site:
        browser = await site.browser()
        invalid = ["", "Bearer x", "Bearer semq_a_b", "Basic x", "Basic Z3Vlc3Q6Z3Vlc3Q=", "Digest a", "x" * 9000]
        for authorization in invalid:
            answer = await browser.get("/api/v1/node/status", headers={"authorization": authorization})
            assert (answer.status_code, answer.json()["code"]) == (401, "SEMQ-1400"), authorization
            assert "Bearer" in answer.headers["www-authenticate"]
        assert (await browser.get("/api/v1/node/status")).status_code == 401


async def test_repeated_failed_sign_ins_are_refused(hub: HubNode) -> None:
    async with serving(hub, attempts_per_minute=3) as site:
        browser = await site.browser()
        headers = {"authorization": "Bearer semq_0_0"}
        statuses = [(await browser.get("/api/v1/node/status", headers=headers)).status_code for _ in range(4)]
        assert statuses == [401, 401, 401, 429]


async def test_failed_sign_ins_of_others_do_not_block_a_token_in_use(hub: HubNode) -> None:
    async with serving(hub, attempts_per_minute=1) as site:
        program, browser = await site.program("viewer"), await site.browser()
        assert (await program.get("/who")).status_code == 200
        headers = {"authorization": "Bearer semq_0_0"}
        statuses = [(await browser.get("/api/v1/who", headers=headers)).status_code for _ in range(2)]
        assert statuses == [401, 429]
        site.web.tokens.read_again()
        assert (await program.get("/who")).status_code == 200


async def test_parallel_guesses_of_a_password_count_like_consecutive_ones(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB_CONFIG.replace("[amqp]\nport = 0", "[amqp]\nport = 0\n" + USERS.strip()))
    async with serving(hub, attempts_per_minute=2) as site:
        browser = await site.browser()
        requests = [browser.get("/api/v1/who", auth=("ops", f"wrong {number}")) for number in range(8)]
        began_at = time.monotonic()
        refused = [answer.status_code for answer in await asyncio.gather(*requests)].count(401)
        assert 2 <= refused <= 3 + (time.monotonic() - began_at) * 2 / 60  # one more is allowed every thirty seconds


async def test_guesses_neither_delay_a_right_password_nor_reach_the_node_nor_reveal_names(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub(HUB_CONFIG.replace("[amqp]\nport = 0", "[amqp]\nport = 0\n" + USERS.strip()))
    pauses: list[float] = []

    def pause_s(took_s: float) -> float:
        pauses.append(took_s)
        return 60.0

    monkeypatch.setattr(authentication, "refusal_pause_s", pause_s)
    async with serving(hub, host="0.0.0.0") as site, AsyncExitStack() as stack:
        guesses = []
        for number in range(2, 17):
            transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{number}")
            guesser = await stack.enter_async_context(httpx.AsyncClient(transport=transport, timeout=600))
            for user in ("ops", "nobody"):
                url = f"http://127.0.0.1:{site.server.port}/api/v1/who"
                guesses.append(asyncio.create_task(guesser.get(url, auth=(user, "wrong"))))
        await until(lambda: len(pauses) == len(guesses))
        accepted = hub.server.listener.accepted
        browser = await site.browser()
        answer = await browser.get(
            f"http://127.0.0.1:{site.server.port}/api/v1/who", auth=("ops", "swordfish swordfish")
        )
        assert answer.status_code == 200
        assert not any(guess.done() for guess in guesses)
        assert hub.server.counters.logins_refused == 0
        assert hub.server.listener.accepted == accepted + 1
        for guess in guesses:
            guess.cancel()


async def test_a_password_that_was_right_before_is_accepted_at_an_address_of_guesses(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB_CONFIG.replace("[amqp]\nport = 0", "[amqp]\nport = 0\n" + USERS.strip()))
    async with serving(hub, attempts_per_minute=2) as site:
        browser = await site.browser()

        async def status(user: str, password: str) -> int:
            return (await browser.get("/api/v1/who", auth=(user, password))).status_code

        assert await status("ops", "swordfish swordfish") == 200
        assert [await status("ops", "wrong") for _ in range(3)] == [401, 401, 429]
        await site.web.logins._logins.pop("ops").close()
        assert await status("ops", "swordfish swordfish") == 200
        assert await status("erp", "erp erp erp") == 200  # another user at the same address


async def test_revoked_and_expired_tokens_are_refused(hub: HubNode) -> None:
    clock = ShiftedClock()
    async with serving(hub, clock) as site:
        revoked, expired = await site.program("viewer"), await site.program("viewer", days=1)
        assert (await revoked.get("/who")).json()["rights"] == ["viewer"]
        admin = await site.program("admin")
        assert (await admin.post("/token/revoke", json={"id": site.tokens[0].id})).status_code == 200
        await until(lambda: _is_refused(revoked))
        assert (await revoked.get("/who")).status_code == 401
        assert (await expired.get("/who")).status_code == 200
        clock.ahead = timedelta(days=2)
        assert (await expired.get("/who")).status_code == 401


async def _is_refused(program: httpx.AsyncClient) -> bool:
    return (await program.get("/who")).status_code == 401


@pytest.mark.parametrize("kind", ["hub", "local"])
async def test_no_operation_is_reached_beyond_its_role(hub: HubNode, node: LocalNode, kind: str) -> None:
    async with serving(hub if kind == "hub" else node, burst=100_000) as site:
        programs = {role: await site.program(role.value) for role in AccessRole}
        program_with_scopes = await site.program("submit", "receive", "events")
        for row in site.web.operations.table.values():
            if (row.name, row.kind, row.role) in CHECKED_ROWS:
                continue  # the other kind of node has the same operation
            CHECKED_ROWS.add((row.name, row.kind, row.role))
            path = "/" + row.name.replace(".", "/")
            for role, program in programs.items():
                if row.role in INCLUDED[role]:
                    continue
                assert (await program.post(path, json={})).status_code == 403, (row.name, role)
                if row.kind is Kind.LOOK:
                    assert (await program.get(path)).status_code in (403, 405), (row.name, role)
            assert (await program_with_scopes.post(path, json={})).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "needs"),
    [("POST", "/inbox/receive", "receive"), ("POST", "/node/reload", "admin"), ("GET", "/events", "events")],
)
async def test_a_token_without_the_scope_is_told_which_it_lacks_and_which_it_has(
    node: LocalNode, method: str, path: str, needs: str
) -> None:
    async with serving(node) as site:
        program = await site.program("submit", "viewer")
        refused = (await program.request(method, path)).json()
        assert (refused["code"], refused["title"]) == ("SEMQ-1401", "This user or token has no right to do this.")
        assert (refused["facts"]["needs"], refused["facts"]["has"]) == (needs, "submit, viewer")
        assert "semq token create" in refused["remedy"]


async def test_users_of_the_node_have_their_own_permissions(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port)
    node = await inprocess.start_node(inprocess.settings("10008", text + USERS))
    await linked(node)
    async with serving(node) as site:
        admin, erp, shop = [
            httpx.AsyncClient(base_url=f"{site.url}/api/v1", auth=auth, timeout=60, verify=False)
            for auth in (("ops", "swordfish swordfish"), ("erp", "erp erp erp"), ("shop", "shop shop shop"))
        ]
        async with admin, erp, shop:
            assert (await admin.get("/node/status")).status_code == 200
            assert (await erp.get("/node/status")).status_code == 403
            sent = await erp.post("/documents?target=56001", content=b"x")
            assert sent.status_code == 201
            assert (await erp.get(f"/documents/{sent.json()['lk0']}")).status_code == 200
            for path in ("/inbox/receive", "/inbox/receive?user=buyer"):
                answer = await erp.post(path)
                assert (answer.status_code, answer.json()["code"]) == (403, "SEMQ-4403"), answer.text
            assert (await erp.get("/events")).status_code == 403
            for path in (f"/documents/{sent.json()['lk0']}", f"/documents/{sent.json()['lk0']}/trace", "/events"):
                assert (await shop.get(path)).status_code == 403, path  # it neither submits nor follows events
            assert (await shop.post("/inbox/receive")).status_code == 200


async def test_the_connection_of_an_upload_is_not_closed_as_idle(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port)
    node = await inprocess.start_node(inprocess.settings("10008", text + USERS))
    await linked(node)
    monkeypatch.setattr("semq.web.api.logins.IDLE_S", -1.0)
    async with serving(node) as site:
        ops, erp = [
            httpx.AsyncClient(base_url=f"{site.url}/api/v1", auth=auth, timeout=60, verify=False)
            for auth in (("ops", "swordfish swordfish"), ("erp", "erp erp erp"))
        ]

        async def parts() -> AsyncIterator[bytes]:
            yield b"x" * 1000
            await until(lambda: site.web.logins._logins)
            assert (await erp.get("/who")).status_code == 200  # a new connection closes idle ones
            yield b"x"

        async with ops, erp:
            sent = await ops.post("/documents?target=56001", content=parts())
            assert sent.status_code == 201, sent.text
            await site.web.logins._logins.pop("erp").client.close()
            await until(lambda: not site.web.logins._logins["ops"].requests)
            assert (await erp.get("/who")).status_code == 200
            assert list(site.web.logins._logins) == ["erp"]


async def test_a_large_upload_that_fails_leaves_the_leases_of_a_user_of_the_node(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(body: SpooledBody, size: int = 1000) -> Iterator[bytes]:
        yield bytes(size)
        raise OSError("the disk is broken")

    hub = await inprocess.hub()
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port).replace("max_document_bytes = 100000\n", "")
    node = await inprocess.start_node(inprocess.settings("10008", text + USERS))
    await linked(node)
    auth = ("ops", "swordfish swordfish")
    async with serving(node) as site, httpx.AsyncClient(base_url=f"{site.url}/api/v1", auth=auth, verify=False) as ops:
        await site.web.client.send("10008", b"a")
        (document,) = (await ops.post("/inbox/receive?wait_s=30", timeout=60)).json()["documents"]
        monkeypatch.setattr(SpooledBody, "blocks", broken)
        failed = await ops.post("/documents?target=10008", content=bytes(3 << 20), timeout=60)
        assert failed.status_code == 500, failed.text
        assert (await ops.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204


async def test_a_session_needs_the_csrf_token_for_acts(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("admin")
        assert (await browser.get("/api/v1/node/status")).status_code == 200
        assert (await browser.post("/api/v1/node/reload", json={})).status_code == 403
        headers = {"x-csrf-token": browser.csrf, "sec-fetch-site": "cross-site"}
        assert (await browser.post("/api/v1/node/reload", json={}, headers=headers)).status_code == 403
        headers["sec-fetch-site"] = "same-origin"
        answer = await browser.post("/api/v1/node/reload", json={"dry_run": True}, headers=headers)
        assert answer.status_code == 200, answer.text


async def test_requests_of_other_sites_change_nothing_whatever_their_credentials(inprocess: InProcess) -> None:
    """Browsers add the password of a user of the node, and a certificate, also to requests of other sites."""
    hub = await inprocess.hub(HUB_CONFIG.replace("[amqp]\nport = 0", "[amqp]\nport = 0\n" + USERS.strip()))
    async with serving(hub) as site:
        browser, program = await site.browser(), await site.program("admin")
        for headers in {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}:
            answers = [
                await browser.post("/api/v1/node/reload", auth=("ops", "swordfish swordfish"), headers=headers),
                await program.post("/node/reload", headers=headers),
            ]
            assert [answer.status_code for answer in answers] == [403, 403], headers
            assert [answer.json()["code"] for answer in answers] == ["SEMQ-1402"] * 2
        assert await site.audit("node.reload") == []
        own = {"origin": site.url, "sec-fetch-site": "same-origin"}
        answer = await browser.post("/api/v1/job/list", auth=("ops", "swordfish swordfish"), headers=own)
        assert answer.status_code == 200


async def test_other_origins_get_no_permission_to_read(hub: HubNode) -> None:
    async with serving(hub) as site:
        program = await site.program("viewer")
        answer = await program.get("/who", headers={"origin": "https://evil.example"})
        assert [name for name in answer.headers if name.startswith("access-control")] == []
        preflight = await program.options("/who", headers={"access-control-request-method": "GET"})
        assert (preflight.status_code, preflight.json()["status"]) == (405, 405)


async def test_a_program_above_its_rate_gets_a_time_to_retry(hub: HubNode) -> None:
    async with serving(hub, burst=3, requests_per_s=0.5) as site:
        program, other_program = await site.program("viewer"), await site.program("viewer")
        answers = [await program.get("/who") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert (answers[3].headers["retry-after"], answers[3].json()["code"]) == ("2", "SEMQ-1410")
        assert (await other_program.get("/who")).status_code == 200
