"""A hostile partner sends the largest packets of every kind over a real link, as fast as the link takes them.

Meanwhile, documents of another partner must be delivered.
"""

import asyncio

import psycopg
import pytest

from local_node.node import LocalNode
from semq.engine.frames import write_frame
from semq.store.rows import Event
from semq.transport.client import ClientLink
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import FLOORS_MAX, RECORDS_MAX, AckFlag, Answer, Inquiry, InquiryRole, Receipt
from tests.flows.by_hand import HUB, ME, OTHER, Peer, log_in_by_hand, message
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

# LK0 of documents of 10008, and of 56001; neither has sent a document with such an LK0 when the flood begins.
OURS, THEIRS = "1.10008.1.1.5.{}", "1.56001.1.1.5.{}"
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
    """Publish a frame without waiting for the confirm, as fast as the link takes it."""
    key, header, body = write_frame(frame)
    await peer.data.wait_ready()
    peer.data.publish("umx", key, header, bytes(body))
    await asyncio.sleep(0)


async def deliver(admin: ClientLink, receiver: ClientLink, count: int) -> None:
    """Send a document from 88001 to 56001, and wait until an application at 56001 receives it."""
    body = {"target": "56001", "body_base64": "eA==", "token": f"neighbour {count}"}
    lk0 = (await ask(admin, "msg.submit", body))["result"]["lk0"]
    channel = await receiver.open_channel()
    while True:
        document = await channel.get("semq.inbox", no_ack=True)
        if document is not None and document.header.message_id == lk0:
            return


@pytest.mark.parametrize("kind", KINDS)
async def test_a_flood_of_packets_does_not_stop_the_documents_of_others(inprocess: InProcess, kind: str) -> None:
    hub = await inprocess.hub()
    other, neighbour = await inprocess.local("56001", hub.port), await inprocess.local("88001", hub.port)
    await linked(other)
    await linked(neighbour)
    peer = await log_in_by_hand(inprocess, hub)
    admin, receiver = await inprocess.client(neighbour), await inprocess.client(other)
    flooding = True

    async def flood() -> None:
        for _ in range(40):
            if flooding:
                await publish(peer, KINDS[kind])

    task = asyncio.create_task(flood())
    for count in range(3):
        await deliver(admin, receiver, count)
    flooding = False
    await task
    # The link of the flood stays up, and the documents sent on it arrive.
    await peer.send_frame(message(1, 0))
    await until(lambda: peer.count(ack_flag=AckFlag.END_TO_END, status=Answer.RECV, ident=OURS.format(1)), 60)
    assert query_number(other, "SELECT count(*) FROM tb_0030_stream") == 2  # one for each node that has sent a document
    violations = f"SELECT count(*) FROM semq_ledger WHERE event = {int(Event.VIOLATION)}"
    assert query_number(other, violations) <= 60
