"""Large documents over HTTP: their temporary files have a budget. An incomplete body releases its share of it."""

import asyncio
import resource
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import httpx
import pytest

from local_node.node import LocalNode
from semq.web.transport.spooling import IN_MEMORY
from tests.local_node.pieces.test_transfer import body_of, counted, local
from tests.service.inprocess import InProcess, linked
from tests.waiting import until
from tests.web.running import Site, serving

MIB = 1 << 20
SIZE = 9 * MIB + 5  # more than a client keeps in memory, and more than the buffers of a connection
MEDIUM = 3 * MIB + 5  # more than the web process keeps in memory
RAW = {"accept": "application/octet-stream"}
SUBMITTED = "SELECT (SELECT count(*) FROM tb_0031_submit) + (SELECT count(*) FROM tb_0031_piece)"


@pytest.fixture
async def site(pieces_node: LocalNode) -> Any:
    """Serve a node that has sent the documents of other tests completely."""
    async with serving(pieces_node, spool_bytes=2 * SIZE) as site:
        site.node = pieces_node  # type: ignore[attr-defined]
        await until(lambda: not rows_submitted(site))
        yield site


@pytest.fixture
async def own_site(inprocess: InProcess) -> Any:
    """Serve a node for incomplete documents, which would disturb other tests."""
    hub = await inprocess.hub()
    node = await local(inprocess, "10008", hub.port)
    await linked(node)
    async with serving(node, spool_bytes=2 * SIZE) as site:
        yield site


async def parts(body: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(body), 70_001):
        yield body[begin : begin + 70_001]


def path_for_documents(site: Site) -> str:
    """Return the path for documents to the inbox of the test."""
    return f"/documents?target=10008/{site.inbox}"


def is_free(site: Site) -> bool:
    return all(budget._free == budget._size for budget in (site.web.memory, site.web.disk))


def rows_submitted(site: Site) -> int:
    return counted(site.node, SUBMITTED)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("is_chunked", "size"), [(False, SIZE), (True, MEDIUM)])
async def test_a_large_document_is_sent_and_received_over_http(site: Site, is_chunked: bool, size: int) -> None:
    program, body = await site.program("submit", "receive", inbox=site.inbox), body_of(size)
    key = {"Idempotency-Key": site.inbox}
    content = parts(body) if is_chunked else body
    sent = await program.post(path_for_documents(site), content=content, headers=key)
    assert (sent.status_code, sent.json()["digest"]) == (201, sha256(body).hexdigest())
    repeated = await program.post(path_for_documents(site), content=body, headers=key)
    assert (repeated.status_code, repeated.json()["repeated"]) == (200, True)
    assert is_free(site)

    raw = await program.post("/inbox/receive?wait_s=60", headers=RAW)
    assert (raw.status_code, raw.content == body) == (200, True)
    assert raw.headers["semq-digest"] == sha256(body).hexdigest()
    assert (await program.post(f"/inbox/leases/{raw.headers['semq-lease']}/requeue")).status_code == 204
    (document,) = (await program.post("/inbox/receive?wait_s=60")).json()["documents"]
    assert b64decode(document["body_base64"]) == body
    assert (await program.post(f"/inbox/leases/{document['lease']}/ack")).status_code == 204
    assert (await program.post("/inbox/receive")).status_code == 200
    await until(lambda: is_free(site))


@pytest.mark.parametrize("size", [IN_MEMORY - 1, IN_MEMORY, IN_MEMORY + 1, 2 * IN_MEMORY])
async def test_no_byte_is_lost_where_a_body_becomes_a_file(site: Site, size: int) -> None:
    program, body = await site.program("submit"), body_of(size)
    sent = await program.post(path_for_documents(site), content=parts(body))
    assert (sent.status_code, sent.json()["digest"]) == (201, sha256(body).hexdigest())


async def test_a_body_without_room_is_refused_and_accepted_later(site: Site) -> None:
    program, body = await site.program("submit"), body_of(MEDIUM)
    release = site.web.disk.reserve_now(site.web.http.spool_bytes - 2 * MIB, "others").release
    for content in (body, parts(body)):
        refused = await program.post(path_for_documents(site), content=content)
        assert (refused.status_code, refused.json()["code"], refused.json()["retry"]) == (507, "SEMQ-1414", True)
    assert rows_submitted(site) == 0
    release()
    assert (await program.post(path_for_documents(site), content=body)).status_code == 201
    large = await program.post(path_for_documents(site), content=bytes(2 * SIZE + 1))
    assert (large.status_code, large.json()["code"]) == (413, "SEMQ-1405")


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Limit the size of files: the system refuses further bytes, as on a full disk."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft_limit, hard_limit))


async def test_a_full_disk_refuses_the_document(site: Site) -> None:
    program, body = await site.program("submit"), body_of(MEDIUM)
    with small_files(2 * MIB):
        refused = await program.post(path_for_documents(site), content=body)
    assert (refused.status_code, refused.json()["code"]) == (507, "SEMQ-1414")
    assert refused.json()["facts"]["fault"] == "File too large"
    assert rows_submitted(site) == 0
    assert is_free(site)


async def test_incomplete_bodies_release_memory_and_disk(own_site: Site) -> None:
    site = own_site
    token, size, body = await site.token("submit"), MEDIUM, body_of(MEDIUM)
    for announced, sent in ((size, body[:1]), (size, body[: size // 2]), (size // 2, body[: size // 2] + b"\0 more")):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(
            f"POST /api/v1{path_for_documents(site)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            f"Idempotency-Key: {announced}\r\nContent-Length: {announced}\r\n\r\n".encode()
        )
        writer.write(sent)
        await writer.drain()
        if len(sent) < announced:
            await until(lambda: not is_free(site))
            writer.close()
        else:  # the bytes after the announced length are not a request
            assert b"HTTP/1.1 400 " in await reader.read()
            writer.close()
        await until(lambda: is_free(site))
    program = await site.program("viewer")
    sizes = {row["size"] for row in (await program.get("/msg/list")).json()["rows"]}
    assert sizes <= {size // 2}  # the complete body may have been accepted


async def test_the_body_of_a_large_received_document_can_be_downloaded(site: Site) -> None:
    program, body = await site.program("submit", "payload", "viewer"), body_of(SIZE)
    key = {"SEMQ-App-Key": f"a/b/c/{site.inbox}"}
    assert (await program.post(path_for_documents(site), content=body, headers=key)).status_code == 201

    async def downloaded() -> httpx.Response | None:
        """Return the answer with the body; None until the document has arrived."""
        rows = (await program.get("/msg/list?side=inbound")).json()["rows"]
        lk0s = [row["lk0"] for row in rows if row["app_key"] == key["SEMQ-App-Key"]]
        answer = await program.get(f"/documents/{lk0s[0]}/body") if lk0s else None
        return answer if answer is not None and answer.status_code == 200 else None

    answer = await until(downloaded)
    assert answer.content == body
    assert (answer.headers["semq-digest"], answer.headers["content-length"]) == (sha256(body).hexdigest(), str(SIZE))
    person = await site.signed_in("viewer", "payload")
    saved = await person.post_form("/messages/payload", id=answer.headers["semq-lk0"], how="save")
    assert saved.content == body
    page = await person.post_form("/messages/payload", id=answer.headers["semq-lk0"], how="look")
    assert (page.status_code, "only the beginning is shown" in page.text) == (200, True)
    await until(lambda: is_free(site))


async def test_the_time_of_a_lease_begins_at_the_end_of_the_answer(site: Site) -> None:
    program, body = await site.program("submit", "receive", inbox=site.inbox), body_of(SIZE)
    assert (await program.post(path_for_documents(site), content=body)).status_code == 201
    async with program.stream("POST", "/inbox/receive?wait_s=60&lease_s=1", headers=RAW) as answer:
        (lease,) = site.web.leases._open.values()
        assert (answer.headers["semq-lease"], lease.timer) == (lease.id, None)
        received_parts = [part async for part in answer.aiter_bytes()]
        assert b"".join(received_parts) == body
    (repeated,) = await until(lambda: received(program))
    assert (repeated["lk0"], repeated["redelivered"]) == (lease.document.lk0, True)


async def test_a_document_whose_reader_disconnects_is_delivered_again(site: Site) -> None:
    program, body = await site.program("submit", "receive", inbox=site.inbox), body_of(SIZE)
    assert (await program.post(path_for_documents(site), content=body)).status_code == 201
    async with program.stream("POST", "/inbox/receive?wait_s=60&lease_s=1", headers=RAW) as answer:
        await anext(answer.aiter_bytes())
    (repeated,) = await until(lambda: received(program))
    assert (repeated["bytes"], repeated["redelivered"]) == (SIZE, True)
    await until(lambda: is_free(site))


async def received(program: httpx.AsyncClient) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = (await program.post("/inbox/receive?wait_s=1")).json()["documents"]
    return documents
