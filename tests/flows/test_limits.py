"""Documents above the size limits of nodes: each node refuses them with a reason, and the link stays up."""

from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as changed

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.engine.errors import DocumentTooLarge
from semq.service.node import PACKET_BYTES_MAX
from semq.transport.client import ClientLink
from semq.umx_t.envelope import Data, Frame
from semq.umx_t.errors import HeadersTooLarge
from semq.umx_t.headers import USER_HEADERS_MAX
from semq.umx_t.status import AppStatus, Arrival, Outcome
from tests.flows.by_hand import log_in_by_hand, message
from tests.flows.sealed import SECRET, SealedWorld, outcomes, send
from tests.flows.trio import SETTINGS, Trio, TrioWire
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

# Bytes of a document whose body a link drops, unless the size limit for documents is higher.
DRAINED = PACKET_BYTES_MAX + 1_000_000
ANY_PORT, LARGE = "port = 0\n", "port = 0\nmax_message_bytes = 20_000_000\n"
TAKES_LARGE = LOCAL_CONFIG.replace(ANY_PORT, LARGE).replace("bytes = 100000", "bytes = 20_000_000")
SMALL_HUB = HUB_CONFIG + "max_document_bytes = 1000\n"
LARGE_HUB = HUB_CONFIG.replace(ANY_PORT, LARGE) + "max_document_bytes = 20_000_000\n"
SMALL = LOCAL_CONFIG.replace("bytes = 100000", "bytes = 1000")


class LimitsScene:
    """A hub, and institution 10008, which sends to 56001 (``receiver``)."""

    def __init__(self, inprocess: InProcess, hub: HubNode, a: LocalNode, client: ClientLink) -> None:
        self.inprocess = inprocess
        self.hub = hub
        self.a = a
        self.client = client

    async def send(self, *sizes: int) -> None:
        channel = await self.client.open_channel()
        await channel.confirm_select()
        for size in sizes:
            header = ContentHeader.build(size, Properties(headers={"@AppKey": f"trade/order//{size}"}))
            assert await publish_and_wait(channel, "semq", "56001", header, bytes(size))

    async def rows(self) -> dict[str, Any]:
        """Return the rows of 10008 by size of the document, which is also its key."""
        rows = (await ask(self.client, "msg.list", {"side": "outbound"}))["result"]["rows"]
        return {row["app_key"].rpartition("/")[2]: row for row in rows}

    async def refused(self, *sizes: int) -> list[str]:
        """Return the reasons when the documents of these sizes, and no others, are REJECTED."""

        async def are_refused() -> dict[str, Any] | None:
            rows = await self.rows()
            ended = all(row["outcome"] == "REJECTED" for row in rows.values())
            return rows if ended and rows.keys() == {str(size) for size in sizes} else None

        rows = await until(are_refused)
        assert {row["reason"][0] for row in rows.values()} == {DocumentTooLarge.code}
        listed = (await ask(self.client, "failed.list"))["result"]["rows"]
        assert {row["lk0"] for row in listed} == {row["lk0"] for row in rows.values()}
        for row in rows.values():
            body = (await ask(self.client, "msg.body", {"id": row["lk0"]}))["result"]
            assert body["digest"] == sha256(bytes(row["size"])).hexdigest()
        return [rows[str(size)]["reason"][1] for size in sizes]


async def scene_of(inprocess: InProcess, hub_text: str) -> LimitsScene:
    """Start a hub, and 10008, which accepts large documents."""
    hub = await inprocess.hub(hub_text)
    a = await inprocess.start_node(inprocess.settings("10008", TAKES_LARGE.format(name="10008", hub=hub.port)))
    await linked(a)
    return LimitsScene(inprocess, hub, a, await inprocess.client(a))


async def receiver(scene: LimitsScene, text: str) -> LocalNode:
    """Start 56001; return when 10008 has the report that it is online."""
    settings = scene.inprocess.settings("56001", text.format(name="56001", hub=scene.hub.port))
    node = await scene.inprocess.start_node(settings)
    await linked(node)
    await until(lambda: scene.a.engine.partners.online.get("1.56001"))
    return node


async def test_a_document_too_large_for_the_hub_is_refused_and_the_link_stays_up(inprocess: InProcess) -> None:
    """The hub reads the body of one document, and drops the body of a larger one."""
    scene = await scene_of(inprocess, SMALL_HUB)
    session = scene.a.parts.hub.link
    await receiver(scene, TAKES_LARGE)
    await scene.send(900, 1001, DRAINED, 901)
    result = await scene.refused(1001, DRAINED)
    assert result == [f"The document has {size} bytes; the hub carries at most 1000." for size in (1001, DRAINED)]
    assert scene.a.parts.hub.link is session


@pytest.mark.parametrize("waits", [False, True], ids=["forwarded", "stored"])
async def test_a_document_too_large_for_the_receiver_is_refused_there(inprocess: InProcess, waits: bool) -> None:
    scene = await scene_of(inprocess, LARGE_HUB)
    if waits:
        await scene.send(900, 1001, DRAINED, 901)
        await until(lambda: scene.hub.engine.custody.rows_by_target.get("1.56001") == 4)
    b = await receiver(scene, SMALL)
    session = b.parts.hub.link
    if not waits:
        await scene.send(900, 1001, DRAINED, 901)
    result = await scene.refused(1001, DRAINED)
    assert result == [f"The document has {size} bytes; the receiver takes at most 1000." for size in (1001, DRAINED)]
    assert b.parts.hub.link is session
    assert not scene.hub.engine.custody.rows_by_target
    client = await inprocess.client(b)
    rows = (await ask(client, "msg.list", {"side": "inbound"}))["result"]["rows"]
    assert {row["size"] for row in rows if row["app_status"] == "NEW"} == {900, 901}
    assert not (await ask(client, "failed.list"))["result"]["rows"]


async def test_oversized_frames_of_a_peer_are_refused_and_the_link_stays_up(inprocess: InProcess) -> None:
    """A marker with a body, and a packet above the limit."""
    hub = await inprocess.hub(SMALL_HUB)
    peer = await log_in_by_hand(inprocess, hub)
    genuine = message(1)
    marker = Data(changed(genuine.envelope, void=True), bytes(DRAINED))
    await peer.send_frame(marker)
    await until(lambda: peer.count(ident=genuine.envelope.ident))
    assert peer.records[-1].reason[0] == DocumentTooLarge.code
    await peer.send_bytes(hub.address, "1.810.indication", bytes(DRAINED))
    await until(lambda: hub.engine.core.counters.counts.get("violation"))
    assert hub.parts.links.links["1.10008"].is_up


@pytest.mark.parametrize("sealed", [True, False])
def test_the_limit_counts_the_bytes_of_the_document_sealed_or_not(sealed: bool) -> None:
    """The bytes of the seal do not count."""
    world = SealedWorld()
    world.settings = replace(SETTINGS, max_document_bytes=len(SECRET))
    world.crash_hub()
    for node in world.nodes:
        node.crash()
        world.connect(node)
    world.settle()
    world.a.send(SECRET, encrypt=sealed)
    world.later(2)
    assert world.b.app.payloads == [SECRET]
    world.a.send(SECRET + b"x", encrypt=sealed)
    assert isinstance(world.a.refused[-1], DocumentTooLarge)


@pytest.mark.parametrize("order_key", ["", "k"])
def test_a_receiver_with_a_smaller_limit_refuses_permanently_and_stores_nothing(order_key: str) -> None:
    world = SealedWorld()
    send(world, b"x")  # then the keys are known
    world.later(1)
    world.settings = replace(SETTINGS, max_document_bytes=5)
    world.b.crash()
    world.connect(world.b)
    world.settle()
    send(world, b"123456", b"12345", order_key=order_key)
    world.later(5)
    assert world.b.app.payloads == [b"x", b"12345"]
    assert outcomes(world.a) == [Outcome.REJECTED]
    (row,) = world.a.store.tables.outbound.values()
    assert row.reason is not None
    assert row.reason[0] == DocumentTooLarge.code
    assert row.has_payload
    assert world.b.rows["tb_0030"] == 0


@pytest.mark.parametrize("order_key", ["", "k"])
def test_a_document_of_an_older_node_with_too_large_headers_is_rejected_and_holds_up_no_others(order_key: str) -> None:
    trio = Trio()
    # The engine accepts it: doors check headers.
    trio.a.send(b"large", order_key=order_key, user_headers={"n": "x" * USER_HEADERS_MAX})
    trio.a.send(b"small", order_key=order_key, user_headers={"n": "x"})
    trio.later(5)
    assert trio.b.app.payloads == [b"small"]
    assert outcomes(trio.a) == [Outcome.REJECTED]
    (row,) = trio.a.store.tables.outbound.values()
    assert row.reason is not None
    assert row.reason[0] == HeadersTooLarge.code
    assert row.has_payload
    assert not [row for row in trio.b.store.tables.pending.values() if row.app_status is AppStatus.PARKED]


def test_a_copy_whose_body_was_dropped_for_its_size_is_answered_like_any_other() -> None:
    trio = Trio()
    copies: list[Frame] = []

    def keep(wire: TrioWire, frame: Frame) -> bool:
        if isinstance(frame, Data) and wire is trio.b.down:
            copies.append(Data(frame.envelope, b"", frame.header, 10**9))
        return False

    trio.lose = keep
    trio.a.send(b"x")
    trio.settle()
    assert trio.b.down is not None
    trio.b.down.send(copies[0])
    trio.later(2)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.kinds[-1] == "delivered"
    assert not [row for row in trio.b.store.tables.pending.values() if row.status is Arrival.REJ]
    assert not [row for row in trio.b.store.tables.pending.values() if row.app_status is AppStatus.PARKED]
