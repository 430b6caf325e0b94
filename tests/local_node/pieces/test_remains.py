"""Pieces that remain: removed without a manifest or after a notice, kept while the document arrives or waits."""

import asyncio
from typing import Any

import psycopg
import pytest

from local_node.node import LocalNode
from local_node.pieces.remains import KEPT_DAYS, document_of
from local_node.pieces.upload import Upload
from semq.engine.ports import Accepted, Submission
from semq.service.clock_check import AFTER_START_S
from semq.store.views.pieces import arrived, without_document
from semq.transport.client import ClientLink
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes
from semq.umx_t.pieces import PIECE_BYTES
from tests.local_node.pieces.test_transfer import (
    COUNT,
    MANIFESTS,
    MEDIUM,
    PIECES,
    body_of,
    confirming,
    counted,
    is_clean,
    local,
    published,
)
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

# Pieces that the receiver takes. Pieces under way (at most 4) may be taken beyond that; the last ones are refused.
IN_QUOTA = (COUNT + 1) // 2
PIECE_ROWS = "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces'"


def age(node: LocalNode) -> None:
    """Make all received messages older than KEPT_DAYS, at a node that trusts its clock."""
    node.parts.remains._check.deletes_from = 0.0
    with psycopg.connect(node.store.url) as connection:
        connection.execute("UPDATE tb_0030 SET received_at = received_at - %s * interval '1 day'", (KEPT_DAYS + 1,))


async def sweep(node: LocalNode) -> None:
    """Sweep twice, because an earlier sweep may be under way."""
    for _ in range(2):
        node.parts.remains.sweep()
        await until(lambda: not node.parts.remains.is_sweeping)
    await asyncio.sleep(0)


async def failed_documents(admin: ClientLink, code: str) -> list[str]:
    """Return the LK0s of documents that failed with the error ``code``."""
    rows = (await ask(admin, "failed.list", {}))["result"]["rows"]
    return [row["lk0"] for row in rows if code in str(row["error"])]


async def refused_for_its_quota(inprocess: InProcess) -> tuple[LocalNode, LocalNode, ClientLink, str]:
    """Send a document with more pieces than its receiver takes. Return sender, receiver, the sender's administrator and
    the LK0 of the document when it was refused and no message is under way."""
    hub = await inprocess.hub()
    with_quota = PIECES + f"quota_piece_bytes_per_partner = {IN_QUOTA * PIECE_BYTES}\n"
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port, with_quota)
    await linked(a, b)
    admin = await inprocess.client(a)
    assert await published(await confirming(inprocess, a), "56001", body_of(MEDIUM), AppKey="a/b/c/K1")
    (document,) = await until(lambda: failed_documents(admin, "SEMQ-1231"))
    await until(lambda: not counted(a, "SELECT count(*) FROM tb_0031"))
    return a, b, admin, document


async def test_the_receiver_deletes_the_pieces_of_a_document_that_was_given_up(inprocess: InProcess) -> None:
    """Otherwise the pieces would count against the quota for 30 days."""
    a, b, admin, document = await refused_for_its_quota(inprocess)
    assert counted(b, PIECE_ROWS) >= IN_QUOTA
    await ask(admin, "failed.remove", {"ids": [document]})
    a.parts.remains.sweep()
    await until(lambda: not counted(a, "SELECT count(*) FROM tb_0031_piece"))
    await until(lambda: b.engine.core.pieces.notices or not counted(b, PIECE_ROWS))
    b.parts.remains.sweep()
    await until(lambda: is_clean(a) and is_clean(b))
    assert not b.engine.core.pieces.notices
    assert not b.engine.core.pieces.of("1.10008")


async def test_neither_a_notice_nor_age_deletes_pieces_whose_manifest_is_there(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    assert await published(await confirming(inprocess, a), "56001", body_of(MEDIUM))
    await until(lambda: counted(b, MANIFESTS))
    (piece,) = await b.store.execute(arrived, "1.10008", 0, 1)
    document = document_of(piece)
    target, attributes = Address(1, "56001", "_pieces"), Attributes(pieces=document)
    errors: list[Exception] = []
    a.engine.submit([Submission(target, attributes, b"", lambda accepted: None, errors.append)])
    await until(lambda: errors or counted(b, "SELECT count(*) FROM semq_ledger WHERE event = 20") == COUNT + 2)
    await sweep(b)
    await until(lambda: not b.engine.core.pieces.notices)
    await until(lambda: counted(b, PIECE_ROWS) == COUNT)  # the notice is deleted, the pieces stay
    assert errors == []
    age(b)
    await sweep(b)
    assert counted(b, PIECE_ROWS) >= COUNT
    with psycopg.connect(b.store.url) as connection:
        connection.execute("DELETE FROM tb_0030 WHERE target_user = ''")
    b.parts.remains.sweep()
    await until(lambda: not counted(b, PIECE_ROWS))


async def test_a_document_whose_pieces_were_removed_at_its_receiver_ends_rejected(inprocess: InProcess) -> None:
    """It was refused for the quota of pieces, and is sent again when the pieces that had arrived are gone."""
    _, b, admin, document = await refused_for_its_quota(inprocess)
    age(b)
    await sweep(b)
    await until(lambda: not counted(b, PIECE_ROWS))
    await ask(admin, "failed.requeue", {"ids": [document], "why": "the quota was raised"})
    await until(lambda: failed_documents(admin, "SEMQ-1232"))
    (shown,) = (await ask(admin, "msg.list", {"key": "K1"}))["result"]["rows"]
    assert shown["outcome"] == "REJECTED"


async def test_the_pieces_of_a_body_that_begins_to_arrive_during_a_sweep_stay(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep deleted them, and the document was confirmed and lost."""
    a = await local(inprocess, "10008", 1)  # no hub: the pieces wait
    await until(lambda: not a.parts.remains.is_sweeping)
    execute, body = a.store.execute, body_of(MEDIUM)
    uploads: list[Upload] = []

    async def begin_an_upload(query: Any, *arguments: Any) -> Any:
        if query is without_document and not uploads:
            uploads.append(a.parts.uploads.begin(len(body), lambda is_paused: None))
            uploads[0].add(body[: 3 * PIECE_BYTES])
            await until(lambda: counted(a, "SELECT count(*) FROM tb_0031_piece") == 3)
        return await execute(query, *arguments)

    monkeypatch.setattr(a.store, "execute", begin_an_upload)
    a.parts.remains.sweep()
    await until(lambda: uploads and not a.parts.remains.is_sweeping)
    uploads[0].add(body[3 * PIECE_BYTES :])
    answers: list[Accepted | Exception] = []
    uploads[0].finish(Submission(Address(1, "56001"), Attributes(), b"", answers.append, answers.append))
    await until(lambda: answers)
    assert isinstance(answers[0], Accepted)
    assert counted(a, "SELECT count(*) FROM tb_0031_piece") == COUNT


def make_unreadable(node: LocalNode, source: str) -> None:
    with psycopg.connect(node.store.url) as connection:
        connection.execute(
            "UPDATE tb_0030_body SET envelope = 'x' WHERE bref IN"
            " (SELECT bref FROM tb_0030 WHERE source = %s AND target_user = '')",
            (source,),
        )


async def test_an_unreadable_message_keeps_the_pieces_of_its_source_only(inprocess: InProcess) -> None:
    """The unreadable message may be the manifest of the pieces. It ended the sweep, also of other sources."""
    a, b, _, _ = await refused_for_its_quota(inprocess)
    kept = counted(b, PIECE_ROWS)
    assert await published(await confirming(inprocess, a), "56001", b"small")

    assert await published(await confirming(inprocess, b), "56001", body_of(5 * PIECE_BYTES))  # to itself
    await until(lambda: counted(b, MANIFESTS) == 2)
    make_unreadable(b, "1.10008")
    with psycopg.connect(b.store.url) as connection:
        connection.execute("DELETE FROM tb_0030 WHERE source = '1.56001' AND target_user = ''")
    age(b)
    b.parts.remains.sweep()
    await until(lambda: counted(b, PIECE_ROWS) == kept)
    with psycopg.connect(b.store.url) as connection:
        connection.execute("DELETE FROM tb_0030 WHERE target_user = ''")
    await sweep(b)
    await until(lambda: not counted(b, PIECE_ROWS))


async def test_pieces_are_not_deleted_for_their_age_while_the_clock_is_in_doubt(inprocess: InProcess) -> None:
    """A clock that jumps ahead made pieces old whose manifest was on its way."""
    a, b, admin, document = await refused_for_its_quota(inprocess)
    stored_bytes = b.engine.core.pieces.of("1.10008")
    age(b)
    b.parts.remains._check.deletes_from = b.clock.monotonic() + AFTER_START_S
    await sweep(b)
    assert b.engine.core.pieces.of("1.10008") == stored_bytes > 0
    await ask(admin, "failed.remove", {"ids": [document]})
    a.parts.remains.sweep()
    await until(lambda: b.engine.core.pieces.notices or not counted(b, PIECE_ROWS))
    b.parts.remains.sweep()  # a notice does not depend on the clock
    await until(lambda: not counted(b, PIECE_ROWS))
