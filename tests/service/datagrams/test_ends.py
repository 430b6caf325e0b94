"""Documents between nodes: as datagrams over a UDP relay with faults, else over the AMQP connection."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import to_builtins

from bench.udp_relay import DatagramFaults, UdpRelay
from local_node.link.uplink import DialledLink
from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.datagrams.document import CarriedDocument
from semq.datagrams.errors import DatagramAddressUnusable
from semq.datagrams.session import DatagramSession
from semq.service.links.sessions import NodeLink
from semq.service.monitoring.health import checks
from semq.transport.client_channel import ClientChannel
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import ChannelRecord
from tests.platform_node.test_cluster import CLUSTER, hubs_of, settle_homes
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import PATIENCE_S, until

TIMES = "answer_s = 0.1\nkeep_s = 0.2\nreport_s = 0.1\n"
BEST_EFFORT = {"@SaveFwd": 1, "@Reliable": 0, "@Ack2": 0}
A, B, HUB = "10008", "56001", "2.hub"


class DatagramScene:
    """A hub and two institutions, whose datagrams pass through a relay."""

    def __init__(self, nodes: InProcess, relay: UdpRelay, hub: HubNode, a: LocalNode, b: LocalNode) -> None:
        self.nodes, self.relay, self.hub, self.a, self.b = nodes, relay, hub, a, b
        self.bodies: asyncio.Queue[bytes] = asyncio.Queue()

    async def renew(self, faults: DatagramFaults) -> None:
        """Begin new sessions and counts with these faults."""
        before = self.sessions()
        self.relay.faults = faults
        for end in (self.a.parts.hub.datagrams, self.b.parts.hub.datagrams, self.hub.parts.datagrams):
            assert end is not None
            end._counts.clear()
        for node in (self.a, self.b):
            await node.parts.hub.restart()
        await until(lambda: None not in (now := self.sessions()) and not {*map(id, now)} & {*map(id, before)})
        await linked(self.a, self.b)
        self.relay.recorded.clear()
        self.bodies = asyncio.Queue()

    def sessions(self) -> list[DatagramSession | None]:
        """Return the sessions of both institutions, at their ends and at the hub."""
        links = [
            self.a.parts.hub.link,
            self.b.parts.hub.link,
            *(self.hub.parts.links.links.get(f"1.{name}") for name in (A, B)),
        ]
        return [link.datagrams.session if link is not None and link.datagrams is not None else None for link in links]

    async def until_open(self) -> None:
        """Wait until datagrams pass between the hub and both institutions, both ways."""
        await until(lambda: all(path["state"] == "open" for path in self.paths()))

    def paths(self) -> list[dict[str, Any]]:
        """Return the status of the four ends: of A, of B, of the hub to A, and of the hub to B."""
        hub = self.hub_status()["peers"]
        return [path_status(self.a), path_status(self.b), hub.get(f"1.{A}", CLOSED), hub.get(f"1.{B}", CLOSED)]

    def is_counted(self) -> bool:
        """Whether all datagrams of A are counted at the hub, and all of the hub at B, as received or lost."""
        a, b, hub_a, hub_b = self.paths()
        at_hub = a["sent"] + by_connection(a) - hub_a["lost"]
        return bool(
            a["sent"] == hub_a["received"] + hub_a["lost"]
            and at_hub == hub_b["sent"] + by_connection(hub_b)
            and hub_b["sent"] == b["received"] + b["lost"]
        )

    def hub_status(self) -> dict[str, Any]:
        assert self.hub.parts.datagrams is not None
        status: dict[str, Any] = to_builtins(self.hub.parts.datagrams.status())
        return status

    async def listen(self) -> None:
        """Open a channel for documents of A, and consume the inbox of B."""
        self.sending = await (await self.nodes.client(self.a)).open_channel()
        await self.sending.confirm_select()
        channel = await (await self.nodes.client(self.b)).open_channel()
        await channel.consume("semq.inbox", lambda batch: self._arrived(channel, batch))

    def _arrived(self, channel: ClientChannel, batch: list[Delivered]) -> None:
        for delivered in batch:
            self.bodies.put_nowait(bytes(delivered.body))
        channel.ack(batch[-1].delivery_tag, multiple=True)

    async def send(self, *bodies: bytes, **headers: int) -> None:
        """Send best-effort documents from A to B."""
        for body in bodies:
            header = ContentHeader.build(len(body), Properties(headers=BEST_EFFORT | headers))
            async with asyncio.timeout(PATIENCE_S):
                assert await publish_and_wait(self.sending, "semq", B, header, body)

    async def received(self, count: int) -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S):
            return [await self.bodies.get() for _ in range(count)]


CLOSED: dict[str, Any] = {"state": "closed"}


def by_connection(counts: dict[str, Any]) -> int:
    """Return the number of documents that were sent over the AMQP connection instead."""
    return int(counts["too_large"] + counts["not_open"] + counts["too_fast"])


def path_status(node: LocalNode) -> dict[str, Any]:
    """Return the status of a node's datagrams beside its link to the hub."""
    assert node.parts.hub.datagrams is not None
    status: dict[str, Any] = to_builtins(node.parts.hub.datagrams.status())["peers"].get(HUB, CLOSED)
    return status


@asynccontextmanager
async def running(
    nodes: InProcess, faults: DatagramFaults | None = None, more: str = ""
) -> AsyncIterator[DatagramScene]:
    relay = UdpRelay(0, faults)
    await relay.start()
    section = f'[datagrams]\nhost = "127.0.0.1"\nport = 0\nadvertised_port = {relay.port}\n{TIMES}{more}'
    hub = await nodes.hub(HUB_CONFIG + section)
    assert hub.parts.datagrams is not None
    relay.aim(hub.parts.datagrams.port.number)
    a, b = [
        await nodes.start_node(
            nodes.settings(name, LOCAL_CONFIG.format(name=name, hub=hub.port) + f"[datagrams]\n{TIMES}{more}")
        )
        for name in (A, B)
    ]
    await linked(a, b)
    scene = DatagramScene(nodes, relay, hub, a, b)
    await scene.listen()
    try:
        yield scene
    finally:
        relay.stop()


@pytest.fixture(scope="module")
async def shared_scene(shared_inprocess: InProcess) -> AsyncIterator[DatagramScene]:
    async with running(shared_inprocess) as scene:
        yield scene


@pytest.fixture
async def start(shared_scene: DatagramScene) -> Callable[[DatagramFaults], Any]:
    """Return a function that renews the shared scene and returns it."""

    async def started(faults: DatagramFaults | None = None) -> DatagramScene:
        await shared_scene.renew(faults or DatagramFaults())
        return shared_scene

    return started


Start = Callable[..., Any]


async def test_best_effort_documents_travel_as_datagrams_to_the_hub_and_from_it(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    await scene.send(*(b"%d" % number for number in range(20)))
    assert sorted(map(int, await scene.received(20))) == list(range(20))
    assert path_status(scene.a)["sent"] == 20
    hub = scene.hub_status()["peers"]
    assert (hub["1.10008"]["received"], hub["1.56001"]["sent"]) == (20, 20)
    assert (path_status(scene.b)["received"], path_status(scene.b)["lost"]) == (20, 0)


async def test_datagrams_contain_neither_body_nor_addresses_in_clear(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    await scene.send(b"a secret of the two institutions")
    await scene.received(1)
    assert path_status(scene.a)["sent"] == 1
    assert not any(word in datagram for datagram in scene.relay.recorded for word in (b"secret", b"10008", b"56001"))


async def test_documents_go_over_the_connection_without_a_path_for_datagrams_and_the_status_has_a_reason(
    start: Start,
) -> None:
    scene = await start(DatagramFaults(is_blocked=True))
    await until(lambda: "is UDP blocked" in path_status(scene.a)["why"])
    await scene.send(b"one", b"two")
    assert await scene.received(2) == [b"one", b"two"]
    assert (path_status(scene.a)["not_open"], path_status(scene.a)["sent"]) == (2, 0)
    assert scene.hub_status()["peers"]["1.10008"]["why"] == "no datagram of the other end has arrived"

    scene.relay.faults.is_blocked = False
    await scene.until_open()
    await scene.send(b"three")
    assert await scene.received(1) == [b"three"]
    assert path_status(scene.a)["sent"] == 1


async def test_a_path_that_is_blocked_later_is_closed(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    scene.relay.faults.is_blocked = True
    await until(lambda: all(path["state"] == "closed" for path in scene.paths()))
    await scene.send(b"one")
    assert await scene.received(1) == [b"one"]


async def test_loss_is_counted_at_both_ends(start: Start) -> None:
    scene = await start(DatagramFaults(loss=0.2))
    await until(lambda: scene.paths()[0]["state"] == "open")
    await scene.send(*(b"%d" % number for number in range(150)))

    def is_reported() -> bool:
        a, b, hub_a, hub_b = scene.paths()
        return scene.is_counted() and (a["lost_there"], hub_b["lost_there"]) == (hub_a["lost"], b["lost"])

    await until(is_reported)
    a, b, hub_a, _ = scene.paths()
    assert a["sent"] > 50
    assert hub_a["lost"] > 0
    # Documents that were not lost arrive once, as a datagram or over the connection.
    bodies = await scene.received(150 - hub_a["lost"] - b["lost"])
    assert len(set(bodies)) == len(bodies)


async def test_recent_loss_is_a_warning_at_both_ends_and_lowers_the_rate(start: Start) -> None:
    scene = await start(DatagramFaults(loss=0.25))

    async def warned() -> list[str]:
        nodes = (scene.a, scene.hub)
        results = [check for node in nodes for check in checks(await node.status(), 14.0)]
        return [check.detail for check in results if check.name == "datagrams" and " lost" in check.detail]

    async with asyncio.timeout(PATIENCE_S):
        while len(await warned()) < 2 or not path_status(scene.a)["slowed"]:
            await scene.send(*(b"%d" % number for number in range(20)))
    at_a, at_hub = await warned()
    assert "2.hub: " in at_a
    assert "documents to it" in at_a
    assert "1.10008: " in at_hub
    assert "documents from it" in at_hub


async def test_doubled_late_and_altered_datagrams_are_harmless(start: Start) -> None:
    scene = await start(DatagramFaults(double=0.3, late=0.2, alter=0.05))
    await until(lambda: scene.paths()[0]["state"] == "open")
    await scene.send(*(b"%d" % number for number in range(150)))
    await until(scene.is_counted)
    a, b, hub_a, hub_b = scene.paths()
    assert hub_a["repeated"] > 0
    assert a["forged"] + b["forged"] + hub_a["forged"] + hub_b["forged"] + scene.hub_status()["strangers"] > 0
    bodies = await scene.received(150 - hub_a["lost"] - b["lost"])
    assert len(set(bodies)) == len(bodies)


async def test_the_hub_follows_a_node_to_another_address(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    scene.relay.rebind()
    await until(lambda: scene.paths()[2]["moved"] == 1 and scene.paths()[3]["moved"] == 1)
    await scene.until_open()
    await scene.send(b"one")
    assert await scene.received(1) == [b"one"]
    a, b, hub_a, hub_b = scene.paths()
    assert (a["sent"], hub_a["received"], hub_b["sent"], b["received"]) == (1, 1, 1, 1)


async def test_foreign_bytes_change_nothing_but_a_count(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    await scene.send(b"one")
    await scene.received(1)
    recorded = list(scene.relay.recorded)
    before = scene.hub_status()
    for datagram in (
        b"x",
        bytes(200),
        b"\xa1" * 200,
        *(datagram[:-1] + bytes([datagram[-1] ^ 1]) for datagram in recorded),
        *recorded,
    ):
        scene.relay.send_to_target(datagram)
    await until(lambda: scene.hub_status()["strangers"] >= before["strangers"] + 3)
    await until(lambda: sum(peer["repeated"] for peer in scene.hub_status()["peers"].values()) >= 2 * len(recorded))
    after = scene.hub_status()
    for node in after["peers"]:
        assert (after["peers"][node]["moved"], after["peers"][node]["state"]) == (0, "open")
        assert after["peers"][node]["received"] == before["peers"][node]["received"]
    assert scene.relay.answers == 0
    await scene.send(b"two")
    assert await scene.received(1) == [b"two"]


async def test_a_document_that_does_not_fit_goes_over_the_connection(start: Start) -> None:
    scene = await start(DatagramFaults(size_max=1200))
    await scene.until_open()
    await scene.send(bytes(1200), b"small")
    assert {len(body) for body in await scene.received(2)} == {1200, 5}
    assert (path_status(scene.a)["too_large"], path_status(scene.a)["sent"]) == (1, 1)


async def test_datagrams_need_no_room_on_the_connection(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await start(DatagramFaults(size_max=1200))
    await scene.until_open()
    for link in (DialledLink, NodeLink):
        monkeypatch.setattr(link, "room", property(lambda link: 0))
    await scene.send(b"one")
    assert await scene.received(1) == [b"one"]
    await scene.send(b"on the connection", **{"@Reliable": 1})
    await scene.send(bytes(1200))
    assert path_status(scene.a)["no_room"] == 1
    await scene.send(b"two")
    assert await scene.received(1) == [b"two"]  # those for the connection were dropped


async def test_reliable_documents_never_travel_as_datagrams(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    await scene.send(b"class 3", **{"@SaveFwd": 3, "@Reliable": 1, "@Ack2": 1})
    await scene.send(b"class 1", **{"@Reliable": 1})
    assert await scene.received(2) == [b"class 3", b"class 1"]
    assert (path_status(scene.a)["sent"], path_status(scene.b)["received"]) == (0, 0)


async def test_a_peer_cannot_use_datagrams_for_other_documents(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    link, session = scene.hub.parts.links.links["1.56001"], scene.b.parts.hub.link
    assert session is not None
    assert session.datagrams is not None
    assert link.datagrams is not None
    header = ContentHeader.build(3, Properties(type="1.810.indication", app_id="2.hub"))
    for datagrams in (link.datagrams, session.datagrams):
        assert datagrams.session.send(CarriedDocument("1.56001", header, b"[ ]"))
    for node in (scene.b, scene.hub):
        await until(lambda node=node: "SEMQ-1117" in {seen.what for seen in node.engine.core.misconduct.seen()})  # type: ignore[misc]


async def test_the_size_of_datagrams_follows_the_largest_size_that_passes(inprocess: InProcess) -> None:
    async with running(inprocess, DatagramFaults(size_max=1400), "search_s = 0.2\n") as scene:
        await until(lambda: [path.get("datagram_bytes") for path in scene.paths()] == [1400] * 4)
        scene.relay.faults.size_max = 1300
        await until(lambda: path_status(scene.a)["datagram_bytes"] in (1200, 1280))
        scene.relay.faults.size_max = 65_535
        await until(lambda: path_status(scene.a)["datagram_bytes"] > 8000)
        await scene.send(bytes(5000))
        assert await scene.received(1) == [bytes(5000)]
        assert path_status(scene.a)["sent"] == 1


async def test_keys_are_renewed_while_documents_are_sent(inprocess: InProcess) -> None:
    async with running(inprocess, more="renew_s = 3\n") as scene:
        await scene.until_open()
        first = session_of(scene.a).channels[0].id
        for number in range(10):
            await scene.send(b"%d" % number)
        await until(lambda: first not in [channel.id for channel in session_of(scene.a).channels])
        await until(lambda: scene.paths()[0]["state"] == "open")
        await scene.send(b"10")
        assert sorted(map(int, await scene.received(11))) == list(range(11))


async def test_a_new_session_has_new_keys(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    old = session_of(scene.a)
    old_ids = {channel.id for channel in old.channels}
    await scene.a.parts.hub.restart()
    await until(lambda: scene.a.parts.hub.link is not None and session_of(scene.a) is not old)
    await until(lambda: session_of(scene.a).open_channel is not None)
    assert old_ids.isdisjoint(channel.id for channel in session_of(scene.a).channels)
    assert (old.channels, old.status().why) == ([], "there is no link")


async def test_a_sealed_document_travels_on_a_secure_link(inprocess: InProcess) -> None:
    section = f'[datagrams]\nhost = "127.0.0.1"\n{TIMES}'
    hub = await inprocess.secure_hub(section + "port = 0\n")
    a, b = [await inprocess.secure_local(name, hub, section) for name in (A, B)]
    await linked(a, b)
    await until(lambda: path_status(a)["state"] == path_status(b)["state"] == "open")
    await until(lambda: a.sealing is not None and a.sealing.keys.receiver(f"1.{B}") is not None)
    scene = DatagramScene(inprocess, UdpRelay(0), hub, a, b)
    await until(lambda: all(path["state"] == "open" for path in scene.paths()))
    await scene.listen()
    await scene.send(b"sealed", **{"@Encrypt": 1})
    assert await scene.received(1) == [b"sealed"]
    assert (path_status(a)["sent"], path_status(b)["received"]) == (1, 1)
    assert b.engine.core.counters.counts.get("violation", 0) == 0


async def test_documents_arrive_at_one_instance_of_the_hub_and_leave_another_as_datagrams(inprocess: InProcess) -> None:
    section = f'[datagrams]\nhost = "127.0.0.1"\n{TIMES}'
    async with hubs_of(inprocess) as hubs:
        hubs.sections = f"{section}port = 0\n{CLUSTER}"
        one, two = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(one, two)
        a, b = [
            await inprocess.start_node(inprocess.settings(name, LOCAL_CONFIG.format(name=name, hub=hub.port) + section))
            for name, hub in ((A, one), (B, two))
        ]
        await linked(a, b)
        await until(lambda: "1.56001" in one.engine.sessions and "1.10008" in two.engine.sessions)
        await until(lambda: path_status(a)["state"] == path_status(b)["state"] == "open")
        peers = [hub.parts.datagrams.status().peers for hub in (one, two) if hub.parts.datagrams is not None]
        assert [list(names) for names in peers] == [["1.10008"], ["1.56001"]]
        await until(lambda: is_open(one, A) and is_open(two, B))
        scene = DatagramScene(inprocess, UdpRelay(0), one, a, b)
        await scene.listen()
        await scene.send(b"one", b"two")
        assert sorted(await scene.received(2)) == [b"one", b"two"]
        assert (path_status(a)["sent"], path_status(b)["received"]) == (2, 2)


def is_open(hub: HubNode, node_id: str) -> bool:
    assert hub.parts.datagrams is not None
    return bool(hub.parts.datagrams.status().peers[f"1.{node_id}"].state == "open")


async def test_the_hub_forwards_no_records_about_channels(start: Start) -> None:
    scene = await start()
    await scene.until_open()
    offer = ChannelRecord(id="00" * 8, secret="11" * 32, port=9)
    link = scene.a.parts.hub.link
    assert link is not None
    for target in (scene.b.address, scene.hub.address):
        link.send(Packet(scene.a.address, target, Function.DATAGRAMS, Primitive.INDICATION, [offer]))
    await scene.send(b"later", **{"@Reliable": 1})
    assert await scene.received(1) == [b"later"]
    at_hub = scene.hub.parts.links.links["1.10008"].datagrams
    assert at_hub is not None
    for session in (session_of(scene.b), at_hub.session):
        [channel] = session.channels
        assert channel.id.hex() != offer.id


async def test_a_node_without_the_section_has_no_datagrams(start: Start, inprocess: InProcess) -> None:
    scene = await start()
    c = await inprocess.local("88001", scene.hub.port)
    await linked(c)
    assert "1.88001" not in scene.hub_status()["peers"]
    assert (await c.status()).datagrams is None


async def test_a_hub_without_datagrams_is_named_as_the_reason(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    node = await inprocess.start_node(
        inprocess.settings(A, LOCAL_CONFIG.format(name=A, hub=hub.port) + "[datagrams]\n")
    )
    await linked(node)
    assert path_status(node)["why"] == "the other end has offered no channel"
    assert hub.engine.core.counters.counts.get("violation", 0) == 0


async def test_a_port_in_use_is_reported(inprocess: InProcess) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        section = f'[datagrams]\nhost = "127.0.0.1"\nport = {taken.getsockname()[1]}\n'
        with pytest.raises(DatagramAddressUnusable):
            await inprocess.hub(HUB_CONFIG + section)


def session_of(node: LocalNode) -> DatagramSession:
    link = node.parts.hub.link
    assert link is not None
    assert link.datagrams is not None
    return link.datagrams.session
