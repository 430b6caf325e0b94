"""Operations of the node over HTTP: arguments in the query or as JSON, errors with codes, acts with audit lines."""

import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.store.audit import AuditFilter, lines
from tests.service.inprocess import InProcess
from tests.web.running import serving


async def test_a_reading_operation_takes_arguments_from_the_query_or_from_json(hub: HubNode) -> None:
    async with serving(hub) as site:
        program = await site.program("viewer")
        assert (await program.get("/nodes/list")).json() == (await program.post("/nodes/list", json={})).json()
        listed = await program.get("/broker/queues", params={"limit": 2})
        assert (len(listed.json()["rows"]), listed.status_code) == (2, 200)
        assert (await program.head("/node/status")).status_code == 200
        assert await site.audit() == []


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/msg/show", b"{}", 400, "SEMQ-2102"),
        ("/msg/show", b'{"id": "no-such"}', 404, "SEMQ-1207"),
        ("/msg/show", b'{"id": "a", "ide": 1}', 400, "SEMQ-2102"),
        ("/msg/show", b'["id"]', 400, "SEMQ-1404"),
        ("/msg/show", b"{", 400, "SEMQ-1404"),
        ("/msg/show", b'{"id": "\xff"}', 400, "SEMQ-1404"),
        ("/msg/show", b'{"id": "\\u0000"}', 400, "SEMQ-2102"),
        ("/msg/show", b"[" * 100_000, 400, "SEMQ-1404"),
        ("/msg/eat", b"{}", 404, "SEMQ-1403"),
        ("/", b"{}", 404, "SEMQ-1403"),
    ],
)
async def test_wrong_requests_get_an_error_with_a_code(
    hub: HubNode, path: str, body: bytes, status: int, code: str
) -> None:
    async with serving(hub) as site:
        program = await site.program("viewer")
        answer = await program.post(path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_parameter_that_is_given_twice_is_refused(hub: HubNode) -> None:
    async with serving(hub) as site:
        program = await site.program("viewer")
        assert (await program.get("/msg/list?limit=1&limit=2")).status_code == 400


async def test_an_act_has_two_lines_in_the_audit_log_and_an_act_beyond_the_role_has_one(node: LocalNode) -> None:
    async with serving(node) as site:
        sent = await site.web.client.send("56001", b"x", app_key="erp/order//S-1")
        operator, viewer = await site.program("operator"), await site.program("viewer")
        cancelled = await operator.post("/msg/cancel", json={"id": sent.lk0, "why": "look"})
        assert cancelled.status_code == 200, cancelled.text
        unknown = await operator.post("/msg/cancel", json={"id": "no-such"})
        assert unknown.status_code == 404
        assert (await viewer.post("/msg/cancel", json={"id": sent.lk0})).status_code == 403
        outcomes = [(act, outcome) for _, act, outcome in await site.audit("msg.cancel")]
        assert outcomes == [("msg.cancel", outcome) for outcome in ("asked", "done", "asked", "refused", "refused")]
        named = await site.web.database.read(lines, AuditFilter(act="msg.cancel", limit=5))
        assert named[-1]["arguments"] == {"documents": [f"order S-1 {sent.name}"], "why": "look"}


async def test_an_unreachable_node_is_reported(inprocess: InProcess) -> None:
    _, node = await inprocess.pair()
    async with serving(node) as site:
        program = await site.program("viewer", "submit")
        assert (await program.get("/node/status")).status_code == 200
        await node.server.stop()
        site.web.client._patience_s = 0.5
        answer = await program.get("/documents/any")
        assert answer.status_code in (503, 504)
        assert int(answer.headers["retry-after"]) >= 1
