"""Documents over HTTP: submissions (also as JSON, scheduled), repeats, refusals, rights, state, trace, body, search."""

import json
import time
from base64 import b64encode
from hashlib import sha256
from typing import Any

import httpx
import pytest

from local_node.node import LocalNode
from tests.service.inprocess import InProcess, linked
from tests.test_trace_context import PARENT
from tests.waiting import until
from tests.web.running import Site, serving

DOCUMENT_JSON = "application/vnd.semq.document+json"


async def wait_until_delivered(program: httpx.AsyncClient, lk0: str) -> dict[str, Any]:
    """Wait until a document is delivered; return its record."""

    async def record() -> dict[str, Any] | None:
        content = (await program.get(f"/documents/{lk0}")).json()
        return content if content.get("outcome") == "DELIVERED" else None

    delivered_record: dict[str, Any] = await until(record)
    return delivered_record


async def has_acts(site: Site, *expected: str) -> bool:
    """Whether the audit log has exactly these acts, in this order."""
    return [act for _, act, _ in await site.audit()] == list(expected)


async def test_a_document_is_accepted_delivered_and_received(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    sender, receiver = [await inprocess.local(name, hub.port) for name in ("10008", "56001")]
    await linked(sender, receiver)
    async with serving(sender) as out, serving(receiver) as into:
        program, receiving_program = await out.program("submit", "events"), await into.program("receive")
        key = "erp/order//Aufträge/S 1"
        headers = {
            "SEMQ-App-Key": key.encode(),
            "SEMQ-Header-Lot.No": "7",
            "SEMQ-Priority": "4",
            "Content-Type": "application/xml",
            "Content-Encoding": "identity",
            "Traceparent": PARENT,
        }
        sent = await program.post("/documents?target=56001", content=b"<order/>", headers=headers)  # type: ignore[arg-type]
        assert (sent.status_code, sent.json()["repeated"]) == (201, False)
        assert sent.json()["digest"] == sha256(b"<order/>").hexdigest()
        lk0 = sent.json()["lk0"]
        assert sent.headers["location"] == f"/api/v1/documents/{lk0}"

        answer = await receiving_program.post("/inbox/receive", params={"wait_s": 30})
        (document,) = answer.json()["documents"]
        assert document["body_base64"] == b64encode(b"<order/>").decode()
        assert (document["lk0"], document["source"], document["app_key"]) == (lk0, "1.10008", key)
        assert (document["content_type"], document["headers"]) == (
            "application/xml",
            {"lot.no": "7", "traceparent": PARENT},
        )
        assert (document["content_encoding"], document["priority"]) == ("identity", 4)
        assert (await receiving_program.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204
        assert (await wait_until_delivered(program, lk0))["lk0"] == lk0
        trace = (await program.get(f"/documents/{lk0}/trace")).json()
        assert {line["node"] for line in trace["events"]} >= {"1.10008", "1.56001"}
        await until(lambda: has_acts(out, "document.submit"))
        await until(lambda: has_acts(into, "inbox.receive", "inbox.ack"))


@pytest.fixture
async def site(node: LocalNode) -> Any:
    async with serving(node) as site:
        yield site


async def test_a_repeat_with_the_same_idempotency_key_is_not_accepted_as_a_second_document(site: Site) -> None:
    program = await site.program("submit")
    headers = {"Idempotency-Key": "order 7"}
    first, second = [await program.post("/documents?target=56001", content=b"x", headers=headers) for _ in "12"]
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["lk0"] == second.json()["lk0"]
    different = await program.post("/documents?target=56001", content=b"y", headers=headers)
    assert (different.status_code, different.json()["code"]) == (409, "SEMQ-1205")


async def test_a_document_may_be_submitted_as_json(site: Site) -> None:
    program = await site.program("submit", "payload")
    document = {"target": "56001", "body_base64": b64encode(b"\0\xff").decode(), "app_key": ["a", "b", "", "c/d"]}
    document["headers"] = {"Lot": 7, "deep": {"list": [1, "two"]}}  # type: ignore[assignment]
    sent = await program.post("/documents", json=document, headers={"Content-Type": DOCUMENT_JSON})
    assert sent.status_code == 201
    answer = await program.get(f"/documents/{sent.json()['lk0']}/body")
    assert (answer.content, answer.headers["content-type"]) == (b"\0\xff", "application/octet-stream")
    assert answer.headers["content-disposition"] == "attachment"
    assert await site.audit("msg.body") == [
        ("erp (" + site.tokens[0].id + ")", "msg.body", outcome) for outcome in ("asked", "done")
    ]


async def test_the_memory_of_a_json_document_is_reserved_until_it_is_committed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[int] = []
    send = site.web.client.send

    async def noted_send(*arguments: Any, **more: Any) -> Any:
        reserved.append(site.web.memory._size - site.web.memory._free)
        return await send(*arguments, **more)

    monkeypatch.setattr(site.web.client, "send", noted_send)
    program = await site.program("submit")
    document = {"target": "56001", "body_base64": b64encode(bytes(60_000)).decode()}
    assert (await program.post("/documents", json=document, headers={"Content-Type": DOCUMENT_JSON})).status_code == 201
    assert reserved[0] >= 80_000
    assert site.web.memory._free == site.web.memory._size


@pytest.mark.parametrize("place", ["header", "query", "json"])
async def test_a_scheduled_document_is_accepted_shown_and_cancelled(site: Site, place: str) -> None:
    program = await site.program("submit", "events", "operator")
    at = int(time.time() * 1000) + 86_400_000
    arguments: dict[str, Any] = {
        "header": {"params": {"target": "56001"}, "headers": {"SEMQ-Not-Before": str(at)}, "content": b"later"},
        "query": {"params": {"target": "56001", "not_before": at}, "content": b"later"},
        "json": {"json": {"target": "56001", "not_before": at}, "headers": {"Content-Type": DOCUMENT_JSON}},
    }
    sent = await program.post("/documents", **arguments[place])
    assert (sent.status_code, sent.json()["not_before"]) == (201, at)
    path = f"/documents/{sent.json()['lk0']}"
    shown = (await program.get(path)).json()
    assert (shown["state"], shown["not_before"]) == ("SCHEDULED", at)
    cancelled = await program.post("/msg/cancel", json={"id": shown["name"], "why": "not wanted"})
    assert cancelled.status_code == 200
    assert (await program.get(path)).json()["outcome"] == "CANCELLED"


@pytest.mark.parametrize("header", [1 << 70, json.loads("[" * 64 + "]" * 64)], ids=["number", "depth"])
async def test_a_header_that_amqp_cannot_carry_is_refused(site: Site, header: object) -> None:
    program = await site.program("submit")
    document = {"target": "56001", "body_base64": "", "headers": {"n": header}}
    refused = await program.post("/documents", json=document, headers={"Content-Type": DOCUMENT_JSON})
    assert (refused.status_code, refused.json()["code"]) == (400, "SEMQ-1404")
    assert "(headers: at most 63 levels)" in refused.text


async def test_a_header_of_63_levels_is_accepted(site: Site) -> None:
    program = await site.program("submit")
    document = {"target": "56001", "body_base64": "", "headers": {"n": json.loads("[" * 63 + "]" * 63)}}
    sent = await program.post("/documents", json=document, headers={"Content-Type": DOCUMENT_JSON})
    assert sent.status_code == 201


@pytest.mark.parametrize("moment", ["tomorrow", "-1", str(2**63)])
async def test_an_invalid_time_is_refused(site: Site, moment: str) -> None:
    program = await site.program("submit")
    for name in ("not_before", "expires_at"):
        refused = await program.post("/documents", params={"target": "56001", name: moment}, content=b"x")
        assert (refused.status_code, refused.json()["code"]) == (400, "SEMQ-2102")


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {}, 400, "SEMQ-2102"),
        ("?target=77", {}, 422, "SEMQ-1201"),
        ("?target=88001", {}, 409, "SEMQ-1202"),
        ("?target=56001&save_fwd=9", {}, 400, "SEMQ-2102"),
        ("?target=56001&savefwd=3", {}, 400, "SEMQ-2102"),
        ("?target=56001", {"SEMQ-Save-Fwd": "1", "SEMQ-Order-Key": "a"}, 409, "SEMQ-1104"),
        ("?target=56001", {"SEMQ-Sid": "1"}, 400, "SEMQ-1404"),
        ("?target=56001&token=a", {"Idempotency-Key": "b"}, 400, "SEMQ-1404"),
        ("?target=56001", {"SEMQ-App-Key": b"\xff"}, 400, "SEMQ-1404"),
        ("?target=56001", {"Content-Type": DOCUMENT_JSON}, 400, "SEMQ-1404"),
        ("?target=56001%00", {}, 400, "SEMQ-2102"),
        ("?target=56001", {"Content-Type": (128 * "é").encode()}, 400, "SEMQ-1404"),
    ],
)
async def test_a_wrong_submission_is_refused_with_a_code(
    site: Site, query: str, headers: dict[str, Any], status: int, code: str
) -> None:
    program = await site.program("submit")
    answer = await program.post(f"/documents{query}", content=b"[", headers=headers)
    content = answer.json()
    assert (answer.status_code, content["code"]) == (status, code), content
    assert answer.headers["content-type"] == "application/problem+json"
    assert content["remedy"]
    assert content["instance"] == "/api/v1/documents"


async def test_a_document_above_the_limit_is_refused_with_or_without_an_announced_length(site: Site) -> None:
    program = await site.program("submit")
    for content in (b"x" * 100_001, _chunks(100_001)):
        answer = await program.post("/documents?target=56001", content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, "SEMQ-1405")
    exact = await program.post("/documents?target=56001", content=_chunks(100_000))
    assert exact.status_code == 201


async def _chunks(size: int) -> Any:
    for begin in range(0, size, 10_000):
        yield b"x" * min(10_000, size - begin)


async def test_the_right_submit_shows_no_document_and_the_right_events_no_body(site: Site) -> None:
    program, viewer = await site.program("submit"), await site.program("viewer")
    sent = await program.post("/documents?target=10008", content=b"x")
    assert sent.status_code == 201
    lk0 = sent.json()["lk0"]
    await until(lambda: _has_arrived(viewer, lk0))
    follower = await site.program("submit", "events")
    assert (await follower.get(f"/documents/{lk0}")).status_code in (200, 404)
    assert (await follower.get(f"/documents/{lk0}/body")).status_code == 403
    for path in ("", "/trace", "/body"):
        assert (await program.get(f"/documents/{lk0}{path}")).status_code == 403, path
    assert (await program.get("/documents")).status_code == 403


async def _has_arrived(viewer: httpx.AsyncClient, lk0: str) -> bool:
    rows = (await viewer.get("/msg/list", params={"side": "inbound"})).json()["rows"]
    return lk0 in {row["lk0"] for row in rows}


async def test_documents_are_searched_by_their_key(site: Site) -> None:
    program = await site.program("submit", "viewer")
    for number in range(3):
        headers = {"SEMQ-App-Key": f"erp/order//K{number}"}
        assert (await program.post("/documents?target=56001", content=b"x", headers=headers)).status_code == 201
    content = (await program.get("/documents", params={"key": "K1"})).json()
    assert [row["app_key"] for row in content["rows"]] == ["erp/order//K1"]


async def test_a_header_with_two_values_is_refused_and_one_with_equal_values_accepted(site: Site) -> None:
    program = await site.program("submit")
    for name in ("SEMQ-Header-Ref", "SEMQ-Order-Key", "Idempotency-Key", "Content-Encoding"):
        two = [(name, "A1"), (name, "A2")]
        refused = await program.post("/documents?target=56001", content=b"x", headers=two)
        assert (refused.status_code, refused.json()["code"]) == (400, "SEMQ-1404"), name
        assert "given twice" in refused.json()["title"]
        equal = [(name, "A1"), (name.lower(), "A1")]
        accepted = await program.post("/documents?target=56001", content=b"x", headers=equal)
        assert accepted.status_code in (200, 201), accepted.text


async def test_attributes_of_the_json_form_and_in_headers_are_combined_and_must_not_differ(site: Site) -> None:
    program = await site.program("submit", "receive", inbox=site.inbox)
    form = {"target": f"10008/{site.inbox}", "body_base64": "", "priority": 4, "headers": {"a": "1"}}
    headers = {"content-type": DOCUMENT_JSON, "semq-header-b": "2", "semq-header-a": "1", "semq-priority": "4"}
    assert (await program.post("/documents", json=form, headers=headers)).status_code == 201
    (document,) = (await program.post("/inbox/receive?wait_s=30")).json()["documents"]
    assert (document["headers"], document["priority"]) == ({"a": "1", "b": "2"}, 4)
    for change in ({"semq-priority": "5"}, {"semq-header-a": "2"}):
        refused = await program.post("/documents", json=form, headers=headers | change)
        assert (refused.status_code, refused.json()["code"]) == (400, "SEMQ-1404"), change


async def test_a_key_is_the_same_quoted_or_not(site: Site) -> None:
    program = await site.program("submit")

    async def sent(key: str) -> httpx.Response:
        return await program.post("/documents?target=56001", content=b"x", headers={"Idempotency-Key": key})

    first = await sent(f"{site.inbox}-S1")
    for same in (f'"{site.inbox}-S1"', f'"{site.inbox}-S1";v=1'):
        again = await sent(same)
        assert (again.status_code, again.json()["lk0"]) == (200, first.json()["lk0"]), same
    both = {"Idempotency-Key": f'"{site.inbox}-S1"', "SEMQ-Token": f"{site.inbox}-S1"}
    again = await program.post("/documents?target=56001", content=b"x", headers=both)
    assert again.status_code == 200
    escaped = await sent(f'"{site.inbox}-\\"2\\""')
    assert escaped.json()["token"] == f'{site.inbox}-"2"'
    for bad in ('"a', '"a"b', '"a\\x"'):
        assert (await sent(bad)).status_code == 400, bad


@pytest.mark.parametrize("how", ["form", "nothing"])
async def test_the_content_type_that_clients_add_to_any_body_is_no_type_of_the_document(site: Site, how: str) -> None:
    program = await site.program("submit", "receive", inbox=site.inbox)
    headers = {"content-type": "application/x-www-form-urlencoded"} if how == "form" else {}
    target = {"target": f"10008/{site.inbox}"}
    assert (await program.post("/documents", params=target, content=b"x", headers=headers)).status_code == 201
    (document,) = (await program.post("/inbox/receive?wait_s=30")).json()["documents"]
    assert document["content_type"] == ""
    said = target | {"content_type": "application/x-www-form-urlencoded"}  # a document that is a form
    assert (await program.post("/documents", params=said, content=b"x", headers=headers)).status_code == 201
    (document,) = (await program.post("/inbox/receive?wait_s=30")).json()["documents"]
    assert document["content_type"] == "application/x-www-form-urlencoded"
