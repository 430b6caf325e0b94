"""The inbox over HTTP: long polling, leases and their owners, memory of answers, a restart of the web process."""

import asyncio
import json
from base64 import b64decode
from typing import Any

import httpx
import psycopg
import pytest

from local_node.node import LocalNode
from semq.app import Client, Document, NodeUnreachable
from semq.config.reach import url_of
from semq.store.audit import AuditFilter, lines
from semq.store.postgres.errors import StoreUnavailable
from semq.umx_t.short_name import short_name
from semq.umx_t.status import AppStatus
from semq.web.api.leases import Leases
from semq.web.transport.bodies import CHUNK
from tests.depth import deeper
from tests.local_node.pieces.test_transfer import counted_at
from tests.test_trace_context import PARENT
from tests.waiting import until
from tests.web.running import Site, serving


@pytest.fixture
async def site(node: LocalNode) -> Any:
    """Serve a node that sends to itself."""
    async with serving(node, leases=3) as site:
        yield site


async def send(site: Site, *bodies: bytes, target: str = "", **more: Any) -> None:
    """Send documents, by default to the inbox of the test."""
    for body in bodies:
        await site.web.client.send(target or f"10008/{site.inbox}", body, **more)


async def receive(program: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await program.post("/inbox/receive", params={"wait_s": 30} | query)
    assert answer.status_code == 200, answer.text
    documents: list[dict[str, Any]] = answer.json()["documents"]
    return documents


async def test_an_unacknowledged_document_is_delivered_again_after_its_lease(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"a")
    (first,) = await receive(program, lease_s=1)
    (repeated,) = await receive(program)
    assert (repeated["lk0"], first["redelivered"], repeated["redelivered"]) == (first["lk0"], False, True)
    late = await program.post(f"/inbox/leases/{first['lease']}/ack")
    assert (late.status_code, late.json()["code"]) == (410, "SEMQ-1406")
    assert (await program.post(f"/inbox/leases/{repeated['lease']}/ack")).status_code == 204
    assert (await program.post(f"/inbox/leases/{repeated['lease']}/ack")).status_code == 410
    assert await receive(program, wait_s=0) == []


async def test_an_answer_has_a_bounded_number_of_bytes_and_unaltered_bodies(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documents beyond the limit are in the next answer."""
    monkeypatch.setattr("semq.app.pull.BYTES_MAX", 60_000)
    site.web.leases = Leases(10)
    program = await site.program("receive", inbox=site.inbox)
    pattern = bytes(range(256)) * (CHUNK // 256 + 1)
    bodies = [pattern[:size] for size in (30_000, 29_999, 1, CHUNK, 3)]
    await send(site, *bodies)
    await until(lambda: has_documents(site, 5))
    first = await receive(program, max=10)
    second = await receive(program, max=10)
    assert [document["bytes"] for document in first] == [30_000, 29_999, 1]
    assert [b64decode(document["body_base64"]) for document in (*first, *second)] == bodies
    assert site.web.memory._free == site.web.memory._size


def has_documents(site: Site, count: int) -> bool:
    new = f"target_user = '{site.inbox}' AND app_status = {AppStatus.NEW:d}"
    return counted_at(site.web.database._find(), f"SELECT count(*) FROM tb_0030 WHERE {new}") == count


async def test_documents_that_do_not_fit_into_the_memory_go_back_to_the_inbox(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"x" * 1000)
    release = (await site.web.memory.reserve(site.web.memory._size - 10, "others")).release
    refused = await program.post("/inbox/receive", params={"wait_s": 30})
    assert (refused.status_code, refused.json()["code"]) == (503, "SEMQ-1412")
    assert refused.headers["retry-after"] == "5"
    release()
    (document,) = await receive(program)
    assert (document["bytes"], document["redelivered"]) == (1000, True)


async def test_documents_of_a_failed_answer_have_no_lease_although_they_cannot_be_returned(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(document: Document) -> None:
        raise NodeUnreachable

    async def unavailable(*_: object, **__: object) -> int:
        raise StoreUnavailable

    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"a", b"b")
    await until(lambda: has_documents(site, 2))
    monkeypatch.setattr(Document, "requeue", unreachable)
    monkeypatch.setattr(site.web.audit, "note", unavailable)
    failed = await program.post("/inbox/receive", params={"wait_s": 30, "max": 2})
    assert (failed.status_code, failed.json()["code"]) == (503, StoreUnavailable.code)
    assert not site.web.leases._open
    assert not site.web.leases._counts


async def test_an_owner_without_documents_has_no_leases(site: Site) -> None:
    """An entry left behind would keep the connection of a user of the node open (``Leases.has``)."""
    program = await site.program("receive", inbox=site.inbox)
    assert await receive(program, wait_s=0) == []
    assert not site.web.leases._counts


async def test_a_client_that_disconnects_during_the_answer_releases_its_memory(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, *[b"x" * 99_000] * 3)
    await until(lambda: has_documents(site, 3))
    async with program.stream("POST", "/inbox/receive", params={"wait_s": 30, "max": 3}) as answer:
        assert answer.status_code == 200
    await until(lambda: site.web.memory._free == site.web.memory._size)


async def test_a_poll_waits_for_a_document(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    polling = asyncio.create_task(receive(program, wait_s=30))
    await asyncio.sleep(0)
    await send(site, b"a")
    (document,) = await polling
    assert document["bytes"] == 1


async def test_a_poll_without_a_wait_receives_the_documents_in_the_inbox(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"a", b"b")
    await until(lambda: has_documents(site, 2))
    assert [document["bytes"] for document in await receive(program, wait_s=0)] == [1]
    assert len(await receive(program, wait_s=0, max=10)) == 1
    assert await receive(program, wait_s=0) == []


async def test_parallel_polls_receive_one_document_each(site: Site) -> None:
    """Eight polls for eight documents, in rounds with and without an order key."""
    site.web.leases = Leases(100)
    program = await site.program("receive", inbox=site.inbox)
    for round_ in range(deeper(4, 10)):
        keys = [{"order_key": "one"} if round_ % 2 else {} for _ in range(8)]
        for number, key in enumerate(keys):
            await send(site, bytes([number]), **key)
        await until(lambda: has_documents(site, 8))
        answers = await asyncio.gather(*(receive_and_ack(program) for _ in range(8)))
        assert sum(map(len, answers)) == 8, round_


async def receive_and_ack(program: httpx.AsyncClient) -> list[dict[str, Any]]:
    documents = await receive(program, wait_s=20)
    for document in documents:
        assert (await program.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204
    return documents


async def test_requeued_documents_come_again_and_parked_ones_wait_for_an_operator(site: Site) -> None:
    program, viewer = await site.program("receive", inbox=site.inbox), await site.program("viewer")
    await send(site, b"a")
    (document,) = await receive(program)
    assert (await program.post(f"/inbox/leases/{document['lease']}/requeue")).status_code == 204
    (document,) = await receive(program)
    assert (await program.post(f"/inbox/leases/{document['lease']}/park")).status_code == 204
    assert await receive(program, wait_s=0) == []
    failed = (await viewer.get("/failed/list")).json()
    assert document["lk0"] in str(failed)


async def test_a_settled_document_is_reported_as_settled_although_the_audit_log_cannot_be_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> list[int]:
        raise StoreUnavailable

    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"a")
    (document,) = await receive(program)
    with monkeypatch.context() as patch:
        patch.setattr(site.web.database, "write", fail)
        assert (await program.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204

    async def acts() -> list[str]:
        return [line["act"] for line in await site.web.database.read(lines, AuditFilter(act="inbox.ack", limit=200))
                if line["arguments"] == {"documents": [short_name(document["lk0"])]}]  # fmt: skip

    assert await until(acts) == ["inbox.ack"]


async def test_an_acknowledgement_is_answered_after_its_commit(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"a")
    (document,) = await receive(program)
    url = site.web.database._find()
    assert url is not None
    with psycopg.connect(url) as lock:
        lock.execute(f"SELECT 1 FROM tb_0030 WHERE target_user = '{site.inbox}' FOR UPDATE")
        settling = asyncio.create_task(program.post(f"/inbox/leases/{document['lease']}/ack"))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        await until(lambda: counted_at(url, waiting) == 1)
        assert not settling.done()
    assert (await settling).status_code == 204
    done = f"target_user = '{site.inbox}' AND app_status = {AppStatus.NEW:d}"
    assert counted_at(url, f"SELECT count(*) FROM tb_0030 WHERE {done}") == 0


async def test_a_client_cannot_settle_documents_of_others(site: Site) -> None:
    program, other_program = (
        await site.program("receive", inbox=site.inbox),
        await site.program("receive", inbox=site.inbox),
    )
    await send(site, b"a")
    (document,) = await receive(program)
    for act in ("ack", "requeue", "park"):
        assert (await other_program.post(f"/inbox/leases/{document['lease']}/{act}")).status_code == 410
    assert (await other_program.post(f"/inbox/leases/{document['lease']}/eat")).status_code == 404
    assert (await program.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204


async def test_an_owner_has_a_limited_number_of_leases(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, *(bytes([number]) for number in range(5)))
    first = await receive(program, max=2)
    second = await receive(program, max=100)
    assert (len(first), len(second)) == (2, 1)
    refused = await program.post("/inbox/receive")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    await program.post(f"/inbox/leases/{first[0]['lease']}/ack")
    assert len(await receive(program)) == 1


async def test_polls_that_wait_count_as_leases(site: Site, node: LocalNode) -> None:
    program, inbox = await site.program("receive", inbox=site.inbox), node.parts.inboxes.queue(site.inbox)
    polls = [asyncio.create_task(program.post("/inbox/receive?wait_s=60&max=2")) for _ in range(4)]
    await until(lambda: sum(poll.done() for poll in polls) + len(inbox._consumers) == len(polls))
    await send(site, *(bytes([number]) for number in range(8)))
    answers = await asyncio.gather(*polls)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429]
    documents = [document for answer in answers for document in answer.json().get("documents", ())]
    for document in documents:
        assert (await program.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204
    assert len(documents) <= 3
    await until(lambda: has_documents(site, 8 - len(documents)))
    assert len(await receive(program, max=3)) == 3  # the reservations of the polls have ended


async def test_one_document_may_be_received_as_bytes_with_headers(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"\0\xff", app_key="a/b//Ü/1", headers={"Lot.no": 7, "Größe": 8, "a b": 9, "traceparent": PARENT})
    raw = {"accept": "application/octet-stream"}
    answer = await program.post("/inbox/receive?wait_s=30", headers=raw)
    headers = {name.decode(): value.decode() for name, value in answer.headers.raw}
    assert answer.content == b"\0\xff"
    assert headers["traceparent"] == PARENT
    assert (headers["semq-header-lot.no"], headers["semq-app-key"]) == ("7", "a/b//Ü/1")
    assert not [name for name in headers if "größe" in name or " " in name]  # HTTP does not permit these names
    assert (await program.post(f"/inbox/leases/{headers['semq-lease']}/ack")).status_code == 204
    assert (await program.post("/inbox/receive", headers=raw)).status_code == 204


async def test_bytes_come_with_the_headers_that_http_carries_unchanged_and_the_number_of_the_others(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    carried = {"lot": 7, "yes": True, "no": None, "empty": "", "list": [1, "ä"], "table": {"n": 1}, "text": "Grüße 5%"}
    omitted = {"line": "a\nb", "ends": " x ", "Lot": "taken", "a b": 1, "long": "x" * 5000}
    await send(site, b"x", headers=carried | omitted)
    answer = await program.post("/inbox/receive?wait_s=30", headers={"accept": "application/octet-stream"})
    headers = {name.decode(): value.decode() for name, value in answer.headers.raw}
    own = {name: value for name, value in headers.items() if name.startswith("semq-header-")}
    assert own == {
        f"semq-header-{name}": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in carried.items()
    }
    assert headers["semq-headers-omitted"] == str(len(omitted))


async def test_a_token_may_be_bound_to_one_inbox(site: Site) -> None:
    program = await site.program("receive", inbox="buyer")
    await send(site, b"for all", target="10008")
    await send(site, b"for the buyer", target="10008/buyer")
    (document,) = await receive(program)
    assert document["target"] == "1.10008/buyer"
    for user in ("", "seller"):
        assert (await program.post("/inbox/receive", params={"user": user})).status_code == 403


@pytest.mark.parametrize("query", ["max=0", "max=x", "wait_s=61", "wait_s=nan", "lease_s=0", "user=a.b", "user=%00"])
async def test_invalid_arguments_are_refused(site: Site, query: str) -> None:
    program = await site.program("receive", inbox=site.inbox)
    assert (await program.post(f"/inbox/receive?{query}")).status_code == 400


async def test_documents_of_an_ended_web_process_are_delivered_again(node: LocalNode) -> None:
    async with serving(node) as site:
        await send(site, b"a")
        (document,) = await receive(await site.program("receive", inbox=site.inbox))
    async with Client(url_of(node.settings, node.port)) as client, client.receive(site.inbox, idle_s=30) as documents:
        repeated = await anext(documents)
        assert (repeated.lk0, repeated.payload, repeated.redelivered) == (document["lk0"], b"a", True)
        await repeated.ack()
