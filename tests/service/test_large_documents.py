"""Documents in pieces, as operations show them."""

import asyncio
from base64 import b64decode
from hashlib import sha256
from typing import Any

import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.cli.messages.presentation import list_row
from semq.service import large_documents
from semq.umx_t.pieces import PIECE_BYTES
from tests.local_node.pieces.test_transfer import (
    PIECES,
    KeepingConsumer,
    body_of,
    confirming,
    counted,
    counted_at,
    is_clean,
    local,
    published,
)
from tests.prepared.client import start_prepared
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

SIZE = 6 * PIECE_BYTES + 5
COUNT = 7
UNDER_WAY = 4  # pieces that may be under way to one node (``window.UNDER_WAY_MAX``)
OVERDUE_AT_ONCE = PIECES + "overdue_s = 0.001\n"


async def answer(admin: Any, operation: str, **arguments: Any) -> Any:
    reply = await ask(admin, operation, arguments)
    assert reply["ok"], reply
    return reply["result"]


async def parts_of(admin: Any) -> list[bytes]:
    """Return the body of document K1, in parts, one for each answer."""
    parts: list[bytes] = []
    while (position := sum(map(len, parts))) < SIZE:
        part = await answer(admin, "msg.body", id="K1", offset=position)
        assert (part["digest"], part["size"]) == (sha256(body_of(SIZE)).hexdigest(), SIZE)
        parts.append(b64decode(part["body_base64"]))
    return parts


async def body_by_command(node: LocalNode) -> bytes:
    """Return the output of ``semq msg body``."""
    process = start_prepared("semq.cli", "msg", "body", "K1", "--node", f"amqp://guest:guest@127.0.0.1:{node.port}/")
    with process.stdout as out:
        body = await asyncio.to_thread(out.read)
    assert await asyncio.to_thread(process.wait) == 0
    return body


async def start_sender(inprocess: InProcess) -> tuple[LocalNode, Any, HubNode]:
    """Start a node with a document in pieces for an absent node. Return the node, an administrator's client of it, and
    the hub.
    """
    hub = await inprocess.hub()
    a = await local(inprocess, "10008", hub.port, OVERDUE_AT_ONCE)
    await linked(a)
    assert await published(await confirming(inprocess, a), "56001", body_of(SIZE), AppKey="a/b/c/K1", Token="T1")
    await until(lambda: counted(a, "SELECT count(*) FROM tb_0031 WHERE dest_user = '_pieces'") == UNDER_WAY)
    return a, await inprocess.client(a), hub


@pytest.fixture(scope="module")
async def sender(shared_inprocess: InProcess) -> tuple[LocalNode, Any, HubNode]:
    """The result of ``start_sender``, for tests that change nothing at these nodes."""
    return await start_sender(shared_inprocess)


async def test_a_sender_sees_its_document_and_its_progress(sender: Any) -> None:
    _, admin, _ = sender
    (row,) = (await answer(admin, "msg.list"))["rows"]
    assert (row["state"], row["size"], row["app_key"]) == ("IN_PIECES", SIZE, "a/b/c/K1")
    assert row["pieces"] == {"count": COUNT, "delivered": 0}
    assert row["not_before"] is None
    assert [row["lk0"] for row in (await answer(admin, "msg.list", state="in_pieces"))["rows"]] == [row["lk0"]]
    assert (await answer(admin, "msg.list", state="scheduled"))["rows"] == []
    assert len((await answer(admin, "msg.list", pieces=True))["rows"]) == UNDER_WAY + 1

    trace = await answer(admin, "msg.trace", id="K1")
    assert [line["event"] for line in trace["events"]] == ["SUBMITTED", "IN_PIECES"]
    assert trace["events"][1]["detail"] == f"0 of {COUNT} pieces delivered"
    (side,) = (await answer(admin, "msg.outlook", id="K1"))["sides"]
    assert (side["waits_for"], side["overdue"], side["cause"]) == ("pieces", True, "PIECES_LEFT")


async def test_sql_shows_documents_and_no_pieces(inprocess: InProcess) -> None:
    a, _, hub = await start_sender(inprocess)
    count_in_state = "SELECT count(*) FROM semq_status('T1'::text) WHERE state = "
    assert counted(a, f"{count_in_state} 'IN_PIECES'")
    b = await local(inprocess, "56001", hub.port)
    count_in_inbox = "SELECT count(*) FROM semq_inbox"
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces'") == COUNT)
    await until(lambda: counted(b, f"{count_in_inbox} WHERE document IS NOT NULL"))
    assert counted(b, count_in_inbox) == 1
    await until(lambda: counted(a, f"{count_in_state} 'DELIVERED'"))


async def test_pieces_are_marked_where_they_are_shown(sender: Any, shared_inprocess: InProcess) -> None:
    """A hub always shows pieces, a local node on request."""
    _, admin_a, hub = sender
    pieces_held = "SELECT count(*) FROM tb_0031 WHERE dest_user = '_pieces'"
    await until(lambda: counted_at(hub.store.url, pieces_held) == UNDER_WAY)
    hub_admin = await shared_inprocess.client(hub)
    shown = [(await answer(hub_admin, "msg.list"))["rows"], await answer(hub_admin, "held.list")]
    shown += [
        [row for row in (await answer(admin_a, "msg.list", pieces=True))["rows"] if row.get("state") != "IN_PIECES"]
    ]
    for rows in shown:
        assert [row["piece"] for row in rows] == [True] * UNDER_WAY
        assert "piece" in str(list_row(rows[0])[-1]).split()
    assert "piece" not in ((await answer(admin_a, "msg.list"))["rows"])[0]


async def test_a_sender_does_not_return_a_manifest_as_body(sender: Any) -> None:
    _, admin, _ = sender
    assert (await ask(admin, "msg.body", {"id": "K1"}))["error"]["code"] == "SEMQ-1225"


async def test_pieces_are_not_counted_as_documents_but_their_bytes_are_counted(sender: Any) -> None:
    _, admin, _ = sender
    result = await answer(admin, "queue.census", fresh=True)
    assert result["pieces"]["outbound"] == {"rows": UNDER_WAY, "bytes": UNDER_WAY * PIECE_BYTES}
    assert (result["sent"], result["pairs"], result["failed"], result["stuck"]) == ({}, [], 0, 1)
    assert result["submitted"] == {"refused": 0, "waiting": 0, "scheduled": 0, "in_pieces": 1}
    assert result["oldest"]["where"] == "submitted by SQL, scheduled or in pieces"
    (cause,) = (await answer(admin, "stuck.causes"))["rows"]
    assert (cause["cause"], cause["rows"]) == ("PIECES_LEFT", 1)
    (stuck,) = (await answer(admin, "stuck.list"))["rows"]
    assert (stuck["state"], stuck["stuck"]["cause"]) == ("IN_PIECES", "PIECES_LEFT")
    (row_of_cause,) = (await answer(admin, "stuck.list", cause="PIECES_LEFT"))["rows"]
    assert row_of_cause["lk0"] == stuck["lk0"]


async def test_a_receiver_sees_size_and_body_of_the_document(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, admin_a, hub = await start_sender(inprocess)
    b = await local(inprocess, "56001", hub.port, OVERDUE_AT_ONCE)
    admin = await inprocess.client(b)
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = ''"))
    (row,) = (await answer(admin, "msg.list"))["rows"]
    assert (row["app_key"], row["size"], row["pieces"]) == ("a/b/c/K1", SIZE, {"count": COUNT})
    assert (await answer(admin, "msg.show", id="K1"))["size"] == SIZE
    (result,) = (await answer(admin, "msg.list"))["rows"]
    assert result["size"] == SIZE
    assert len((await answer(admin, "msg.list", pieces=True))["rows"]) == 1 + COUNT
    assert (await answer(admin, "queue.census", fresh=True))["received"] == {"NEW": 1}
    overdue = "SELECT count(*) FROM tb_0030 WHERE received_at < now() - interval '2 ms'"
    await until(lambda: counted(b, overdue) == COUNT + 1)  # the pieces and the manifest
    (stuck,) = (await answer(admin, "stuck.list"))["rows"]
    assert stuck["app_key"] == "a/b/c/K1"
    trace = await answer(admin_a, "msg.trace", id="K1")
    assert await parts_of(admin) == [body_of(SIZE)]
    monkeypatch.setattr(large_documents, "ANSWER_BYTES_MAX", 2 * PIECE_BYTES)
    parts = await parts_of(admin)
    assert [len(part) for part in parts] == [2 * PIECE_BYTES] * 3 + [5]
    assert b"".join(parts) == body_of(SIZE)
    assert await body_by_command(b) == body_of(SIZE)
    assert (await ask(admin, "msg.body", {"id": "K1"}))["error"]["code"] == "SEMQ-1235"
    assert f"{COUNT} pieces, {SIZE} bytes" in trace["events"][0]["detail"]
    consumer = await KeepingConsumer.on(inprocess, b)
    consumer.channel.ack((await consumer.next()).delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))
