"""The link to the hub: frames in both directions, bounded and in turns."""

import asyncio

import pytest

from local_node.link import uplink
from local_node.link.uplink import DialledLink
from semq.amqp.errors import LocalMisuse
from semq.amqp.events import Delivered
from semq.engine.frames import write_frame
from semq.service import intake
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope, Frame, Function, Packet, Primitive
from semq.umx_t.locator import LK0
from semq.umx_t.records import Inquiry, Presence
from semq.umx_t.version import HIGHEST
from tests.service.inprocess import InProcess, linked, uplink_of
from tests.transport.pair import header, pair
from tests.waiting import PATIENCE_S, until

A, B, HUB = Address(1, "a"), Address(1, "b"), Address(2, "hub")
FRAMES = (
    Data(Envelope(source=A, target=B, lk0=LK0(1, "a", 1, 1, 7, 1), attributes=Attributes(), sid=0), b"x"),
    Packet(A, B, Function.RECEIPTS, Primitive.INDICATION, []),
)


async def test_frames_sent_just_after_the_loss_of_the_socket_are_dropped_without_an_error() -> None:
    """The link ends one turn after the loss of its socket; meanwhile, callers notified of commits may send frames."""
    async with pair() as endpoints:
        client = await endpoints.dial()
        data, control = await client.open_channel(), await client.open_channel()
        link = DialledLink(HUB, HIGHEST, data, control, 100)
        assert link.room == 100
        client.link.eof_received()
        with pytest.raises(LocalMisuse):
            data.publish("", "q", header(b"x"), b"x")
        assert link.room == 0
        for frame in FRAMES:
            link.send(frame)


async def test_a_turn_that_has_only_unreadable_frames_returns_their_credit(inprocess: InProcess) -> None:
    hub, node = await inprocess.linked_pair()
    link = hub.parts.links.links["1.10008"]
    room, counts = link.room, node.engine.core.counters.counts
    link._unacked_messages += 1
    link.data.deliver("umx", "nobody's address", header(b"x"), b"x", False, 0)
    assert link.room == room - 1
    await until(lambda: link.room == room)
    assert counts["violation"] == 1
    assert node.parts.hub.link is not None


async def test_packets_above_the_bound_of_one_partner_are_dropped_and_noted(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three packets of each speaker arrive in one read; the second one already exceeds a partner's bound."""
    monkeypatch.setattr(uplink, "PARTNER_BYTES_MAX", 0)
    hub, node = await inprocess.linked_pair()
    link, received = hub.parts.links.links["1.10008"], []
    monkeypatch.setattr(node.engine, "receive", lambda link, frames: received.extend(frames))
    for source in (Address(1, "56001"), HUB):
        for _ in range(3):
            link.send(Packet(source, link.peer, Function.INQUIRIES, Primitive.CONFIRMATION, [Inquiry()]))
    await until(lambda: len(received) == 4)
    assert [frame.source for frame in received] == [Address(1, "56001"), HUB, HUB, HUB]
    assert node.engine.core.counters.counts["violation"] == 2


async def test_a_directory_is_processed_a_few_records_a_turn(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, node = await inprocess.linked_pair()
    link = hub.parts.links.links["1.10008"]
    received: list[list[Frame]] = []
    monkeypatch.setattr(node.engine, "receive", lambda link, frames: received.append(frames))
    named = [Presence(node=f"1.{n}") for n in range(uplink.PRESENCE_PER_TURN * 3 + 1)]
    for _ in range(2):
        link.send(Packet(HUB, link.peer, Function.PRESENCE, Primitive.INDICATION, named))
    await until(lambda: len(received) == 8)
    packets = [frame for frames in received for frame in frames if isinstance(frame, Packet)]
    assert [record for packet in packets for record in packet.records] == named * 2
    assert max(len(packet.records) for packet in packets) == uplink.PRESENCE_PER_TURN


async def test_no_further_presence_of_the_hub_is_read_while_parts_wait(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six packets arrive, each divided into eight parts; parts of more than one packet never wait at the same time."""
    monkeypatch.setattr(intake, "BYTES_PER_TURN", 1)
    hub, node = await inprocess.linked_pair()
    link = hub.parts.links.links["1.10008"]
    received: list[Packet] = []
    waited: list[int] = []

    def receive(_: object, frames: list[Packet]) -> None:
        received.extend(frames)
        waited.append(len(uplink_of(node)._presence))

    monkeypatch.setattr(node.engine, "receive", receive)
    named = [Presence(node=f"1.{n}") for n in range(uplink.PRESENCE_PER_TURN * 8)]
    for number in range(6):
        speaker = HUB if number % 2 else Address(2, "hub", f"user{number}")
        link.send(Packet(speaker, link.peer, Function.PRESENCE, Primitive.INDICATION, named))
    link.send(Packet(Address(1, "56001"), link.peer, Function.INQUIRIES, Primitive.CONFIRMATION, [Inquiry()]))
    await until(lambda: len(received) == 6 * 8 + 1)
    assert max(waited) < 8
    assert [record for packet in received if packet.source.node == HUB for record in packet.records] == named * 6
    assert received.index(next(packet for packet in received if packet.source == Address(1, "56001"))) < 8


async def test_a_hub_needs_to_state_its_address_only(inprocess: InProcess) -> None:
    """PROTOCOL.md section 27: ``node`` is the address; ``node_id`` is for older nodes."""
    hub = await inprocess.hub()
    properties = hub.server.config.properties
    assert isinstance(properties, dict)
    del properties["node_id"]
    node = await inprocess.local("10008", hub.port)
    await linked(node)
    assert node.parts.hub.link is not None
    assert node.parts.hub.link.peer == HUB


async def test_the_end_of_a_session_ends_the_pauses_of_its_speakers(inprocess: InProcess) -> None:
    _, node = await inprocess.linked_pair()
    uplink_of(node).intake.pause(str(HUB))
    uplink_of(node)._end_link()
    assert not uplink_of(node).intake._paused


async def test_frames_that_arrived_before_the_end_of_a_session_are_processed(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, node = await inprocess.linked_pair()
    link, received = node.parts.hub.link, list[Frame]()
    assert link is not None
    monkeypatch.setattr(node.engine, "receive", lambda link, frames: received.extend(frames))
    batches = []
    for frame in FRAMES:
        routing_key, content_header, body = write_frame(frame)
        batches.append([Delivered(1, "", 1, False, "", routing_key, content_header, bytes(body))])
    uplink_of(node)._on_messages(link._data, batches[0])
    uplink_of(node)._on_packets(batches[1])
    uplink_of(node)._end_link()
    assert [type(frame) for frame in received] == [Data, Packet]
    assert not link.is_up


async def test_a_node_stops_although_a_defect_prevents_the_processing_of_the_last_frames(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, node = await inprocess.linked_pair()
    link, client = node.parts.hub.link, uplink_of(node)._client
    assert link is not None
    assert client is not None

    def fail(link: object, frames: list[Frame]) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(node.engine, "receive", fail)
    uplink_of(node)._received += FRAMES
    async with asyncio.timeout(PATIENCE_S):
        await node.parts.hub.stop()
    assert not link.is_up
    assert not client.is_open
