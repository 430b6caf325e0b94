"""Downloads of bodies: interrupted and continued, in ranges, or complete."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from local_node.node import LocalNode
from semq.store.views import pieces as views
from semq.umx_t.pieces import PIECE_BYTES
from tests.local_node.pieces.test_transfer import body_of, counted
from tests.waiting import until
from tests.web.running import Site, serving

SIZE = 40 * PIECE_BYTES + 5  # more than one answer of the node
SMALL_SIZE = 5 * PIECE_BYTES + 5
PATH, SMALL_PATH = "/documents/K1/body", "/documents/K2/body"


@pytest.fixture(scope="module")
async def site(pieces_node: LocalNode) -> AsyncIterator[Site]:
    """Serve a node that has received the documents K1 and K2 in pieces, from itself."""
    async with serving(pieces_node) as site:
        site.node = pieces_node  # type: ignore[attr-defined]
        sender = await site.program("submit")
        for key, size in (("K1", SIZE), ("K2", SMALL_SIZE)):
            headers = {"SEMQ-App-Key": f"a/b/c/{key}"}
            sent = await sender.post("/documents?target=10008", content=body_of(size), headers=headers)
            assert sent.status_code == 201
        await until(lambda: counted(pieces_node, "SELECT count(*) FROM tb_0030 WHERE target_user = ''") == 2)
        yield site


def pieces_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list, to which the BREF of each piece is added when the node reads the piece."""
    store = site.node.store  # type: ignore[attr-defined]
    brefs: list[int] = []
    execute = store.execute

    async def noted_read(query: Any, *arguments: Any) -> Any:
        if query is views.payload:
            brefs.append(arguments[0])
        return await execute(query, *arguments)

    monkeypatch.setattr(store, "execute", noted_read)
    return brefs


async def test_an_interrupted_download_continues_where_it_ended(site: Site) -> None:
    program = await site.program("payload")
    parts: list[bytes] = []
    tag, answers = "", 0
    while (position := sum(map(len, parts))) < SIZE:
        headers = {"range": f"bytes={position}-", "if-range": tag} if parts else {}
        async with program.stream("GET", PATH, headers=headers) as answer:
            assert answer.headers["accept-ranges"] == "bytes"
            assert int(answer.headers["content-length"]) == SIZE - position
            if parts:
                assert (answer.status_code, answer.headers["etag"]) == (206, tag)
                assert answer.headers["content-range"] == f"bytes {position}-{SIZE - 1}/{SIZE}"
            tag, answers = answer.headers["etag"], answers + 1
            interrupted_at = position + 3_500_000
            async for part in answer.aiter_raw():
                parts.append(part)
                if sum(map(len, parts)) > interrupted_at:
                    break  # closes the connection in the middle of the body
    assert b"".join(parts) == body_of(SIZE)
    assert answers >= 3
    await until(lambda: site.web.memory._free == site.web.memory._size)


@pytest.mark.parametrize(
    ("text", "begin", "end", "pieces"),
    [
        ("bytes=0-0", 0, 1, 1),
        (f"bytes={PIECE_BYTES - 1}-{PIECE_BYTES}", PIECE_BYTES - 1, PIECE_BYTES + 1, 2),
        (f"bytes={5 * PIECE_BYTES}-{6 * PIECE_BYTES - 1}", 5 * PIECE_BYTES, 6 * PIECE_BYTES, 1),
        ("bytes=-5", SIZE - 5, SIZE, 1),
        (f"bytes={SIZE - 6}-", SIZE - 6, SIZE, 2),
        (f"bytes=7-{SIZE - 7}", 7, SIZE - 6, 40),
    ],
)
async def test_only_the_pieces_of_the_range_are_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, text: str, begin: int, end: int, pieces: int
) -> None:
    brefs = pieces_read(site, monkeypatch)
    program = await site.program("payload")
    answer = await program.get(PATH, headers={"range": text})
    assert (answer.status_code, answer.headers["content-range"]) == (206, f"bytes {begin}-{end - 1}/{SIZE}")
    assert answer.content == body_of(SIZE)[begin:end]
    assert (len(brefs), len(set(brefs))) == (pieces, pieces)


async def test_a_range_beyond_the_body_is_refused_with_its_size(site: Site) -> None:
    program = await site.program("payload")
    for text in (f"bytes={SIZE}-", "bytes=-0", f"bytes={10**30}-"):
        answer = await program.get(PATH, headers={"range": text})
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{SIZE}")
        assert answer.json()["code"] == "SEMQ-1409"
    assert site.web.memory._free == site.web.memory._size


@pytest.mark.parametrize(
    "headers",
    [
        {"range": "bytes=10-20", "if-range": '"another"'},
        {"range": "bytes=-20", "if-range": "Tue, 24 Nov 2026 01:00:00 GMT"},
        {"range": "bytes=0-1,5-6"},
        {"range": "lines=0-1"},
        {"if-range": '"another"'},
    ],
)
async def test_the_whole_body_is_sent_unless_one_range_is_valid(site: Site, headers: dict[str, str]) -> None:
    program = await site.program("payload")
    answer = await program.get(SMALL_PATH, headers=headers)
    assert (answer.status_code, answer.content == body_of(SMALL_SIZE)) == (200, True)
    assert "content-range" not in answer.headers


async def test_a_head_request_names_size_and_tag_and_reads_no_piece(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    brefs = pieces_read(site, monkeypatch)
    program = await site.program("payload")
    answer = await program.head(PATH, headers={"range": "bytes=0-1"})
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, str(SIZE), b"")
    digest = answer.headers["semq-digest"]
    assert answer.headers["etag"] == f'"{digest}"'
    assert not brefs
    await until(lambda: site.web.memory._free == site.web.memory._size)


async def test_a_range_needs_the_right_to_see_payloads(site: Site) -> None:
    program = await site.program("viewer", "submit")
    assert (await program.get(PATH, headers={"range": "bytes=0-1"})).status_code == 403


async def test_a_document_that_is_one_message_has_ranges_too(site: Site) -> None:
    program = await site.program("submit", "payload")
    sent: httpx.Response = await program.post("/documents?target=10008", content=b"0123456789")
    path = f"/documents/{sent.json()['lk0']}/body"
    await until(lambda: not counted(site.node, "SELECT count(*) FROM tb_0031"))  # type: ignore[attr-defined]
    ranges = {"bytes=2-4": b"234", "bytes=8-": b"89", "bytes=-3": b"789", "bytes=0-99": b"0123456789"}
    for text, content in ranges.items():
        answer = await program.get(path, headers={"range": text})
        assert (answer.status_code, answer.content) == (206, content)
