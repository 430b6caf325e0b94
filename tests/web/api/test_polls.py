"""Polls that end early: without space for an answer, or without a client. They take no documents."""

import asyncio
from typing import Any

import pytest

from local_node.node import LocalNode
from semq.store.postgres.errors import StoreUnavailable
from semq.web.api.inbox import DOCUMENTS_MAX
from tests.app.full_disk import full_disk
from tests.waiting import until
from tests.web.api.test_inbox import has_documents, receive, send
from tests.web.running import Site, serving

REFUSED_POLLS = 25  # more than the deliveries after which the node parks a document
SPOOLED_FROM = 50_000  # bytes of the smallest documents that are kept in files


@pytest.fixture
async def site(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serve a node that sends to itself."""
    monkeypatch.setattr("semq.app.link.SPOOLED_FROM", SPOOLED_FROM)
    async with serving(node) as site:
        yield site


@pytest.mark.parametrize(
    ("size", "status", "code"), [(1000, 503, "SEMQ-1412"), (SPOOLED_FROM, 507, "SEMQ-1414")], ids=["memory", "disk"]
)
async def test_polls_without_space_for_the_answer_take_a_document_once(
    site: Site, size: int, status: int, code: str
) -> None:
    program = await site.program("receive", inbox=site.inbox)
    budget = site.web.memory if status == 503 else site.web.disk
    await send(site, bytes(size))
    release = budget.reserve_now(budget._size - 10, "others").release
    for _ in range(REFUSED_POLLS):
        refused = await program.post("/inbox/receive", params={"wait_s": 30})
        assert (refused.status_code, refused.json()["code"]) == (status, code)
    release()
    (document,) = await receive(program)
    assert (document["bytes"], document["deliveries"]) == (size, 2)
    await until(lambda: budget._free == budget._size)


async def test_a_document_without_space_ends_all_polls_of_its_inbox(site: Site, node: LocalNode) -> None:
    program = await site.program("receive", inbox=site.inbox)
    polls = [asyncio.create_task(program.post("/inbox/receive", params={"wait_s": 60})) for _ in range(5)]
    inbox = node.parts.inboxes.queue(site.inbox)
    await until(lambda: len(inbox._consumers) == len(polls))
    release = site.web.memory.reserve_now(site.web.memory._size - 10, "others").release
    await send(site, bytes(1000))
    assert {answer.status_code for answer in await asyncio.gather(*polls)} == {503}
    release()
    (document,) = await receive(program)
    assert document["deliveries"] == 2


async def test_while_the_audit_log_cannot_be_written_polls_take_a_document_once(
    site: Site, node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object, **__: object) -> int:
        raise StoreUnavailable

    program, inbox = await site.program("receive", inbox=site.inbox), node.parts.inboxes.queue(site.inbox)
    with monkeypatch.context() as patch:
        patch.setattr(site.web.audit, "note", unavailable)
        polls = [asyncio.create_task(program.post("/inbox/receive", params={"wait_s": 60})) for _ in range(4)]
        await until(lambda: len(inbox._consumers) == len(polls))
        await send(site, b"a")
        assert {answer.status_code for answer in await asyncio.gather(*polls)} == {503}
        for _ in range(REFUSED_POLLS):
            refused = await program.post("/inbox/receive", params={"wait_s": 30})
            assert (refused.status_code, refused.json()["code"]) == (503, StoreUnavailable.code)
    (document,) = await receive(program)
    assert document["deliveries"] == 2
    assert len(await site.audit("inbox.receive")) == 2  # one to learn whether lines can be written again


async def test_after_a_lack_of_space_polls_reserve_it_until_the_document_is_answered(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    release = site.web.memory.reserve_now(site.web.memory._size - 10, "others").release
    await send(site, bytes(1000))
    assert (await program.post("/inbox/receive", params={"wait_s": 30})).status_code == 503
    await send(site, bytes(500), bytes(2000))  # accepted after the return of the first
    await until(lambda: has_documents(site, 3))
    release(site.web.memory._size - 1000)
    first = await receive(program)
    assert [document["bytes"] for document in first] == [1000]
    release()
    others = await receive(program, max=10)  # they need more space than the first, which is available now
    assert [(document["bytes"], document["deliveries"]) for document in others] == [(500, 1), (2000, 1)]
    assert site.web.polls._shortages
    assert await receive(program, wait_s=0) == []
    assert not site.web.polls._shortages


async def test_after_a_refused_answer_single_documents_are_answered_if_there_is_space_for_them(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, *[bytes(500)] * 19)
    await until(lambda: has_documents(site, 19))
    release = site.web.memory.reserve_now(site.web.memory._size - 5000, "others").release
    assert (await program.post("/inbox/receive", params={"max": 19, "wait_s": 30})).status_code == 503
    for _ in range(10):
        (document,) = await receive(program)
        assert document["deliveries"] == 2
    release()


async def test_a_program_whose_answers_do_not_fit_gets_all_documents_before_the_node_parks_them(site: Site) -> None:
    program, count = await site.program("receive", inbox=site.inbox), 25
    await send(site, *[bytes(500)] * count)
    await until(lambda: has_documents(site, count))
    release = site.web.memory.reserve_now(site.web.memory._size - 600, "others").release  # one document, but not two
    deliveries: list[int] = []
    for _ in range(2 * count):  # each document is answered after one refusal at most
        answer = await program.post("/inbox/receive", params={"max": count})
        if answer.status_code == 200:
            deliveries += [document["deliveries"] for document in answer.json()["documents"]]
        await until(lambda: not site.web.leases._returns)
    assert len(deliveries) == count
    assert max(deliveries) < REFUSED_POLLS / 2
    release()


async def test_a_document_that_does_not_fit_on_the_disk_is_answered_with_the_status_of_a_full_disk(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, bytes(SPOOLED_FROM))
    await until(lambda: has_documents(site, 1))
    with full_disk():
        refused = await program.post("/inbox/receive", params={"wait_s": 30})
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (507, "SEMQ-1316", "60")


async def test_a_poll_whose_client_has_disconnected_takes_no_document(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    poll = asyncio.create_task(program.post("/inbox/receive", params={"wait_s": 60}))
    await until(lambda: site.web.polls._waiting)
    poll.cancel()
    await until(lambda: not site.web.streams._open)
    await send(site, b"a")
    (document,) = await receive(program)
    assert document["deliveries"] == 1


async def test_documents_go_back_at_once_if_the_client_disconnects_during_the_answer(site: Site) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, *[bytes(99_000)] * DOCUMENTS_MAX)  # more than the sockets hold
    await until(lambda: has_documents(site, DOCUMENTS_MAX))
    async with program.stream("POST", "/inbox/receive", params={"max": DOCUMENTS_MAX, "lease_s": 3600}) as answer:
        assert answer.status_code == 200
        assert len(site.web.leases._open) == DOCUMENTS_MAX
    await until(lambda: not site.web.leases._open)
    (document,) = await receive(program)
    assert document["deliveries"] == 2


async def test_documents_go_back_at_once_if_the_client_disconnects_before_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = await site.program("receive", inbox=site.inbox)
    await send(site, b"a")
    note, is_noting = site.web.audit.note, asyncio.Event()
    may_answer = asyncio.Event()

    async def slow_note(*arguments: Any, **more: Any) -> int:
        is_noting.set()
        await may_answer.wait()
        return await note(*arguments, **more)

    monkeypatch.setattr(site.web.audit, "note", slow_note)
    poll = asyncio.create_task(program.post("/inbox/receive", params={"wait_s": 60, "lease_s": 3600}))
    await is_noting.wait()
    poll.cancel()
    await until(lambda: not site.server._state.connections)
    may_answer.set()
    monkeypatch.setattr(site.web.audit, "note", note)
    (document,) = await receive(program)
    assert document["deliveries"] == 2
