"""A hostile partner sends the largest packets over a real link; documents of a third institution are delivered."""

import asyncio
from contextlib import suppress
from functools import partial

import psycopg

from local_node.node import LocalNode
from semq.engine.frames import write_frame
from semq.engine.violations import LINES_PER_MINUTE
from semq.store.rows import Event
from semq.transport.client import ClientLink
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import FLOORS_MAX, RECORDS_MAX, AckFlag, Answer, Inquiry, InquiryRole, Receipt
from tests.depth import deeper
from tests.flows.by_hand import HUB, ME, OTHER, Peer, log_in_by_hand, message
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

# LK0 of documents of 10008 and of 56001; those in the packets were never sent.
OURS, THEIRS = "1.10008.1.1.5.{}", "1.56001.1.1.5.{}"
PACKETS, DOCUMENTS = deeper(12, 40), deeper(2, 3)  # packets of each kind; documents during each flood
FIRST_DOCUMENT = 1 << 20  # last part of the LK0 of the first document on the link of the flood
VIOLATIONS = f"SELECT count(*) FROM semq_ledger WHERE event = {int(Event.VIOLATION)}"
FLOORS: dict[str, tuple[int, int | None]] = {f"{n:x}": (n, None) for n in range(1, FLOORS_MAX + 1)}
KINDS: dict[str, Packet] = {
    "floors": Packet(
        ME, OTHER, Function.RECEIPTS, Primitive.RESPONSE,
        [Receipt(ack_flag=AckFlag.END_TO_END, ident=OURS.format(1), floors=FLOORS)],
    ),
    "inquiries": Packet(
        ME, OTHER, Function.INQUIRIES, Primitive.REQUEST,
        [Inquiry(role=InquiryRole.S, ident=OURS.format(n), sid=n, nonce=n) for n in range(RECORDS_MAX)],
    ),
    "receipts": Packet(
        ME, OTHER, Function.RECEIPTS, Primitive.INDICATION,
        [Receipt(ack_flag=AckFlag.END_TO_END, ident=THEIRS.format(n), status=Answer.RECV) for n in range(RECORDS_MAX)],
    ),
    "answers": Packet(
        ME, OTHER, Function.INQUIRIES, Primitive.CONFIRMATION,
        [Inquiry(role=InquiryRole.S, ident=THEIRS.format(n), answer=Answer.NOT, nonce=n) for n in range(RECORDS_MAX)],
    ),
    "acks to the hub": Packet(
        ME, HUB, Function.RECEIPTS, Primitive.INDICATION,
        [Receipt(ack_flag=AckFlag.TRANSPORT, ident=THEIRS.format(n), src_ref_id=n) for n in range(RECORDS_MAX)],
    ),
    "questions to the hub": Packet(
        ME, HUB, Function.INQUIRIES, Primitive.REQUEST,
        [Inquiry(role=InquiryRole.S, ident=OURS.format(n), lk1=(1, 1, n), nonce=n) for n in range(RECORDS_MAX)],
    ),
    "lies": Packet(
        ME, OTHER, Function.INQUIRIES, Primitive.REQUEST,
        [Inquiry(role=InquiryRole.S, ident=f"1.88001.1.1.5.{n}", sid=n) for n in range(RECORDS_MAX)],
    ),
}  # fmt: skip


def query_number(node: LocalNode, sql: str) -> int:
    with psycopg.connect(node.store.url) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])


async def publish(peer: Peer, frame: Frame) -> None:
    """Publish a frame without waiting for its confirm."""
    key, header, body = write_frame(frame)
    await peer.data.wait_ready()
    peer.data.publish("umx", key, header, bytes(body))
    await asyncio.sleep(0)


async def deliver(admin: ClientLink, receiver: ClientLink, token: str) -> None:
    """Send a document from 88001 to 56001, and wait until an application has it."""
    body = {"target": "56001", "body_base64": "eA==", "token": token}
    lk0 = (await ask(admin, "msg.submit", body))["result"]["lk0"]
    channel = await receiver.open_channel()
    while True:
        document = await channel.get("semq.inbox", no_ack=True)
        if document is not None and document.header.message_id == lk0:
            return


async def test_a_flood_of_large_packets_does_not_stop_the_documents_of_others(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    other, neighbour = await inprocess.local("56001", hub.port), await inprocess.local("88001", hub.port)
    await linked(other)
    await linked(neighbour)
    peer = await log_in_by_hand(inprocess, hub)
    admin, receiver = await inprocess.client(neighbour), await inprocess.client(other)
    for number, (kind, packet) in enumerate(KINDS.items(), FIRST_DOCUMENT):
        before = query_number(other, VIOLATIONS)
        task = asyncio.create_task(flood(peer, packet))
        for count in range(DOCUMENTS):
            await deliver(admin, receiver, f"{kind} {count}")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        # The link of the flood stays up.
        await peer.send_frame(message(number, 0))
        await until(partial(peer.count, ack_flag=AckFlag.END_TO_END, status=Answer.RECV, ident=OURS.format(number)), 60)
        assert query_number(other, VIOLATIONS) <= before + LINES_PER_MINUTE, kind
    assert query_number(other, "SELECT count(*) FROM tb_0030_stream") == 2  # one for each sender


async def flood(peer: Peer, packet: Packet) -> None:
    for _ in range(PACKETS):
        await publish(peer, packet)
