"""Frames that no SEMQ node sends, over a real link: the nodes answer or refuse them, and the link stays up.

A peer with a valid login sends them to a real hub, and through it to a real institution.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.errors import AmqpError
from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.headers import packet_type
from semq.umx_t.records import RECORDS_MAX, AckFlag, Answer, Inquiry, InquiryRole, Receipt
from semq.umx_t.version import PROPERTY
from tests.flows.by_hand import HUB, LOGIN, ME, OTHER, PROPERTIES, Peer, log_in_by_hand, message
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

OURS = "1.10008.1.1.5.{}"  # LK0 of a message of 10008
THEIRS = "1.56001.1.1.5.{}"  # LK0 of a message of 56001, in an incarnation that did not exist


@dataclass
class NonsenseScene:
    hub: HubNode
    other: LocalNode
    peer: Peer


@pytest.fixture
async def scene(inprocess: InProcess) -> NonsenseScene:
    hub = await inprocess.hub()
    other = await inprocess.local("56001", hub.port)
    peer = await log_in_by_hand(inprocess, hub)
    await linked(other)
    return NonsenseScene(hub, other, peer)


def lines(node: LocalNode | HubNode, event: Event) -> int:
    with psycopg.connect(node.store.url) as connection:
        row = connection.execute("SELECT count(*) FROM semq_ledger WHERE event = %s", (int(event),)).fetchone()
    assert row is not None
    return int(row[0])


def has_violations(node: LocalNode | HubNode, number: int) -> bool:
    return lines(node, Event.VIOLATION) == number


def packet(function: Function, primitive: Primitive, *records: Any, to: Address = OTHER) -> Packet:
    return Packet(ME, to, function, primitive, records)


async def check_delivery(scene: NonsenseScene, number: int, sid: int) -> None:
    """Send a document and wait for its receipt: the link and the nodes still work."""
    await scene.peer.send_frame(message(number, sid))
    ident = OURS.format(number)
    await until(lambda: scene.peer.count(ack_flag=AckFlag.END_TO_END, status=Answer.RECV, ident=ident))
    assert scene.peer.link.is_open


RECEIPTS = packet_type(Function.RECEIPTS, Primitive.INDICATION)
INQUIRIES = packet_type(Function.INQUIRIES, Primitive.REQUEST)
# Type | body.
UNREADABLE = [
    ("1.999.Indication", b"[]"),
    ("", b"[]"),
    ("7.810.Indication", b"[]"),
    (packet_type(Function.RECEIPTS, Primitive.CONFIRMATION), b"[]"),
    (RECEIPTS, b""),
    (RECEIPTS, b"{"),
    (RECEIPTS, b"\xff\xfe"),
    (RECEIPTS, b'{"ident":1}'),
    (RECEIPTS, b'[{"src_ref_id":-1}]'),
    (RECEIPTS, b'[{"src_ref_id":99999999999999999999}]'),
    (RECEIPTS, b'[{"ident":"1.10008.1.1.5.7; DROP TABLE tb_0031"}]'),
    (RECEIPTS, b"[" * 100_000),
    (INQUIRIES, b'[{"role":"X"}]'),
    (RECEIPTS, b"[" + b"{}," * RECORDS_MAX + b"{}]"),
]


async def test_unreadable_frames_are_noted_as_violations(scene: NonsenseScene) -> None:
    for type_, body in UNREADABLE:
        await scene.peer.send_bytes(HUB, type_, body)
        await scene.peer.send_bytes(OTHER, type_, body)
    await scene.peer.send_bytes(OTHER, RECEIPTS, b"[]", source="no,body")
    expected = 2 * len(UNREADABLE) + 1
    await until(lambda: lines(scene.hub, Event.VIOLATION) == expected)
    assert lines(scene.other, Event.VIOLATION) == 0
    await check_delivery(scene, 1, 0)


async def test_impossible_locators_are_noted_as_violations(scene: NonsenseScene) -> None:
    for forged in ("", "1", "1.56001", "1.56001.1.1.zz.7", "1.56001.1.1.5.-7", "1.56001.9.9.5.7"):
        ack2 = Receipt(ack_flag=AckFlag.END_TO_END, status=Answer.RECV, ident=forged)
        await scene.peer.send_frame(packet(Function.RECEIPTS, Primitive.INDICATION, ack2))
    await until(lambda: lines(scene.hub, Event.VIOLATION) + lines(scene.other, Event.VIOLATION) == 6)
    await check_delivery(scene, 1, 0)


async def test_statements_about_unknown_messages_are_answered(scene: NonsenseScene) -> None:
    """They are no violations: the answers let the peer finish."""
    peer = scene.peer
    ident, theirs = OURS.format(77), THEIRS.format(77)
    await peer.send_frame(
        packet(Function.INQUIRIES, Primitive.REQUEST, Inquiry(role=InquiryRole.S, ident=ident, sid=0, nonce=3))
    )
    await until(lambda: peer.count(answer=Answer.NOT, ident=ident, nonce=3))
    about_a_copy = Inquiry(role=InquiryRole.S, ident=ident, lk1=(1, 1, 12345), nonce=4)
    await peer.send_frame(packet(Function.INQUIRIES, Primitive.REQUEST, about_a_copy, to=HUB))
    await until(lambda: peer.count(answer=Answer.GONE, ident=ident, nonce=4))
    about_another_store = Inquiry(role=InquiryRole.S, ident=ident, lk1=(8, 9, 12345), nonce=5)
    await peer.send_frame(packet(Function.INQUIRIES, Primitive.REQUEST, about_another_store, to=HUB))
    await until(lambda: peer.count(answer=Answer.UNAVAIL, ident=ident, nonce=5))
    ack = Receipt(ack_flag=AckFlag.TRANSPORT, ident=theirs, src_ref_id=12345, status=Answer.RECV)
    await peer.send_frame(packet(Function.RECEIPTS, Primitive.INDICATION, ack, to=HUB))
    await until(lambda: peer.count(ack_flag=AckFlag.TRANSPORT, ident=theirs))
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, ident=theirs, status=Answer.RECV)
    await peer.send_frame(packet(Function.RECEIPTS, Primitive.INDICATION, ack2))
    await until(lambda: peer.count(ack_flag=AckFlag.END_TO_END, ident=theirs, floors={"5": (0, 0)}))
    inquiry_r = Inquiry(role=InquiryRole.R, ident=theirs, status=Answer.RECV, dest_ref_id=3)
    await peer.send_frame(packet(Function.INQUIRIES, Primitive.REQUEST, inquiry_r))
    await until(lambda: peer.count(ack_flag=AckFlag.END_TO_END, ident=theirs, dest_ref_id=3))
    assert lines(scene.hub, Event.VIOLATION) == lines(scene.other, Event.VIOLATION) == 0
    await check_delivery(scene, 1, 0)


async def test_an_acknowledgement_of_another_node_s_message_changes_nothing(
    inprocess: InProcess, scene: NonsenseScene
) -> None:
    """A document waits for 88001. 10008 sends statements about it that only 88001 may send."""
    admin = await inprocess.client(scene.other)
    lk0 = (await ask(admin, "msg.submit", {"target": "88001", "body_base64": "eA=="}))["result"]["lk0"]
    await until(lambda: scene.hub.engine.custody.rows_by_target.get("1.88001"))
    with psycopg.connect(scene.hub.store.url) as connection:
        ((copy,),) = connection.execute("SELECT object_id FROM tb_0031").fetchall()
    ack = Receipt(ack_flag=AckFlag.TRANSPORT, ident=lk0, src_ref_id=copy, status=Answer.RECV)
    await scene.peer.send_frame(packet(Function.RECEIPTS, Primitive.INDICATION, ack, to=HUB))
    await until(lambda: lines(scene.hub, Event.VIOLATION) == 1)
    for function, primitive, record in (
        (Function.RECEIPTS, Primitive.INDICATION, Receipt(ack_flag=AckFlag.END_TO_END, ident=lk0, status=Answer.RECV)),
        (Function.INQUIRIES, Primitive.REQUEST, Inquiry(role=InquiryRole.R, ident=lk0, status=Answer.RECV)),
        (Function.INQUIRIES, Primitive.CONFIRMATION, Inquiry(role=InquiryRole.S, ident=lk0, answer=Answer.RECV)),
    ):
        before = lines(scene.other, Event.VIOLATION)
        await scene.peer.send_frame(packet(function, primitive, record))
        await until(partial(has_violations, scene.other, before + 1))
    assert scene.hub.engine.custody.rows_by_target == {"1.88001": 1}
    assert (await ask(admin, "msg.show", {"id": lk0}))["result"]["outcome"] is None
    await check_delivery(scene, 1, 0)


async def test_repeated_messages_are_recorded_once_and_repeated_inquiries_are_all_answered(
    scene: NonsenseScene,
) -> None:
    peer = scene.peer
    for _ in range(3):
        await peer.send_frame(message(1))
    await until(lambda: peer.count(ack_flag=AckFlag.END_TO_END, ident=OURS.format(1)) == 3)
    question = Inquiry(role=InquiryRole.S, ident=OURS.format(1), sid=0, nonce=1)
    await peer.send_frame(packet(Function.INQUIRIES, Primitive.REQUEST, *[question] * 50))
    await until(lambda: peer.count(answer=Answer.RECV) == 50)
    assert lines(scene.other, Event.RECEIVED) == 1
    assert lines(scene.other, Event.DUPLICATE) == 2
    await check_delivery(scene, 2, 1)


async def test_a_known_lk0_with_other_bytes_is_an_alarm(scene: NonsenseScene) -> None:
    await check_delivery(scene, 1, 0)
    changed = Data(replace(message(1).envelope, digest=b"\x01" * 32), b"y")
    await scene.peer.send_frame(changed)
    await until(lambda: lines(scene.other, Event.MISMATCH) == 1)
    await check_delivery(scene, 2, 1)


@pytest.mark.parametrize("to", [HUB, OTHER], ids=["hub", "institution"])
async def test_the_largest_packets_are_processed(scene: NonsenseScene, to: Address) -> None:
    peer = scene.peer
    if to is HUB:
        records: list[Any] = [
            Receipt(ack_flag=AckFlag.TRANSPORT, ident=THEIRS.format(n), src_ref_id=n) for n in range(RECORDS_MAX)
        ]
        await peer.send_frame(packet(Function.RECEIPTS, Primitive.INDICATION, *records, to=to))
        await until(lambda: peer.count(ack_flag=AckFlag.TRANSPORT) == RECORDS_MAX, 120)
    else:
        records = [Inquiry(role=InquiryRole.S, ident=OURS.format(n), sid=n, nonce=n) for n in range(RECORDS_MAX)]
        await peer.send_frame(packet(Function.INQUIRIES, Primitive.REQUEST, *records, to=to))
        await until(lambda: peer.count(answer=Answer.NOT) == RECORDS_MAX, 120)
    await check_delivery(scene, 1, 0)


@pytest.mark.parametrize(("offered", "is_accepted"), [([3, 4], False), ([0, 0], False), ([2, 9], True), (None, True)])
async def test_a_peer_without_a_common_version_is_refused_and_others_work(
    inprocess: InProcess, offered: Any, is_accepted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """``offered``: lowest and highest version of the peer; None: no version is stated."""
    hub = await inprocess.hub()
    other = await inprocess.local("56001", hub.port)
    await linked(other)
    properties = PROPERTIES | ({} if offered is None else {PROPERTY: offered})

    async def log_in() -> None:
        link = await inprocess.client(hub, **LOGIN, client_properties=properties)
        await (await link.open_channel()).consume("node.1.10008.control", lambda batch: None, no_ack=True)

    if is_accepted:
        await log_in()
    else:
        with pytest.raises(AmqpError):
            await log_in()
        assert "SEMQ-1120" in caplog.text
    assert other.parts.hub.link is not None
