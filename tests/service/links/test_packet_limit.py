"""The limit for packets that a hub passes on to a node that reads slowly."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from platform_node.node import HubNode
from semq.amqp.content import ContentHeader
from semq.amqp.events import Delivered
from semq.amqp.wire import encode_fields
from semq.engine.frames import read_frame, write_frame
from semq.service.links.packet_limit import SHARE_MAX, UNSENT_LOW, UNSENT_MAX, PacketLimit
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.records import Answer, Inquiry, InquiryRole, Presence
from tests.flows.by_hand import message
from tests.service.inprocess import InProcess
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

OnDelivered = Callable[[Sequence[Delivered]], None]
ME, SLOW, OTHER = Address(1, "88001"), Address(1, "56001"), Address(1, "10008")
SHARE_PACKETS = SHARE_MAX // 1000  # packets of 1000 bytes that one node may send while its target reads nothing


def admitted(limit: PacketLimit, source: str, unsent: int, count: int = 2 * SHARE_PACKETS) -> int:
    """Return how many of some packets of 1000 bytes are admitted."""
    return sum(limit.admits(source, 1000, unsent) for _ in range(count))


def test_a_node_has_a_share_while_its_target_reads_slowly() -> None:
    limit = PacketLimit()
    assert admitted(limit, "1.88001", UNSENT_LOW + 1) == SHARE_PACKETS
    assert admitted(limit, "1.10008", UNSENT_LOW + 1) == SHARE_PACKETS  # another node has its own share
    assert admitted(limit, "1.88001", UNSENT_LOW + 1) == 0
    assert limit.admits("1.88001", 1000, UNSENT_LOW)  # the target has read
    assert admitted(limit, "1.88001", UNSENT_LOW + 1) == SHARE_PACKETS - 1


def test_no_packet_of_another_node_is_admitted_beyond_the_limit_of_all() -> None:
    limit = PacketLimit()
    assert limit.admits("1.88001", 1000, UNSENT_MAX)
    assert not limit.admits("1.10008", 1000, UNSENT_MAX + 1)


class SlowReader:
    """56001, which reads nothing between ``pause`` and ``read``."""

    def __init__(self, hub: HubNode) -> None:
        self.hub = hub
        self.link: ClientLink
        self.arrived: set[str] = set()  #: idents of answers, and names of nodes in the hub's records of presence

    async def log_in(self, inprocess: InProcess) -> None:
        self.link, _ = await logged_in(inprocess, self.hub, SLOW, self._note)

    def _note(self, batch: Sequence[Delivered]) -> None:
        for delivered in batch:
            frame = read_frame(delivered.routing_key, delivered.header, delivered.body)
            assert isinstance(frame, Packet)
            self.arrived |= {record.node if isinstance(record, Presence) else record.ident for record in frame.records}

    @property
    def unsent(self) -> int:
        """The number of bytes that wait for 56001 at the hub."""
        return self.hub.parts.links.links[str(SLOW)].session.unsent()

    def pause(self) -> None:
        self.link.link.pause_reading("the test")

    def read(self) -> None:
        self.link.link.resume_reading("the test")


async def logged_in(
    inprocess: InProcess, hub: HubNode, node: Address, on_packet: OnDelivered = lambda batch: None
) -> tuple[ClientLink, ClientChannel]:
    """Log in as a node; return its link, and a channel with confirms, when the hub has its session."""
    link = await inprocess.client(hub, virtual_host="umx", user=str(node), password=f"pass-{node.id}")
    data, control = await link.open_channel(), await link.open_channel()
    await data.confirm_select()
    await data.consume(f"node.{node}", lambda batch: None)
    await control.consume(f"node.{node}.control", on_packet, no_ack=True)
    await until(lambda: str(node) in hub.engine.sessions)
    return link, data


def answers(source: Address, ident: str, count: int = 1) -> tuple[str, ContentHeader, bytes]:
    """Return a packet of equal answers to 56001, of 1000 bytes each."""
    reason = ("SEMQ-5214", "x" * 900)
    record = Inquiry(ident=ident, role=InquiryRole.S, answer=Answer.NOT, reason=reason)
    packet = Packet(source, SLOW, Function.INQUIRIES, Primitive.CONFIRMATION, [record] * count)
    key, header, body = write_frame(packet)
    return key, header, bytes(body)


async def test_packets_for_a_node_that_does_not_read_fill_no_memory_and_keep_no_others_away(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.hub()
    slow = SlowReader(hub)
    await slow.log_in(inprocess)
    _, hostile = await logged_in(inprocess, hub, ME)
    slow.pause()
    key, header, body = answers(ME, "1.56001.1.1.ab.1", 900)
    for _ in range(3 * UNSENT_MAX // len(body)):
        assert await publish_and_wait(hostile, "umx", key, header, body)
        assert slow.unsent <= UNSENT_LOW + SHARE_MAX + len(body)
    assert hub.engine.core.counters.counts["packets_dropped"] > 0
    _, honest = await logged_in(inprocess, hub, OTHER)  # the hub's record of presence has no limit
    assert await publish_and_wait(honest, "umx", *answers(OTHER, "1.56001.1.1.ab.2"))
    slow.read()
    await until(lambda: slow.arrived >= {str(OTHER), "1.56001.1.1.ab.1", "1.56001.1.1.ab.2"})
    await until(lambda: slow.unsent == 0)
    assert await publish_and_wait(hostile, "umx", *answers(ME, "1.56001.1.1.ab.3"))
    await until(lambda: "1.56001.1.1.ab.3" in slow.arrived)


async def test_the_headers_of_documents_use_credit(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    slow = SlowReader(hub)
    await slow.log_in(inprocess)
    slow.pause()
    link = hub.parts.links.links[str(SLOW)]
    envelope = message(1).envelope
    attributes = replace(envelope.attributes, user_headers=encode_fields({"long": "x" * 100_000}))
    credit = hub.settings.protocol.credit_bytes
    for _ in range(credit // 100_000 + 1):
        assert link.room
        link.send(Data(replace(envelope, attributes=attributes), b""))
    assert not link.room
