"""The link to the platform, as the engine sees it: one that never raises."""

import pytest

from local_node.uplink import PlatformLink
from semq.amqp.errors import LocalMisuse
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope, Function, Packet, Primitive
from semq.umx_t.locator import LK0
from tests.service.inprocess import InProcess, linked, until
from tests.transport.pair import header, pair

A, B, HUB = Address(1, "a"), Address(1, "b"), Address(2, "hub")
FRAMES = (
    Data(Envelope(source=A, target=B, lk0=LK0(1, "a", 1, 1, 7, 1), attributes=Attributes(), sid=0), b"x"),
    Packet(A, B, Function.RECEIPTS, Primitive.INDICATION, []),
)


async def test_what_is_sent_when_the_socket_has_just_been_lost_is_dropped_in_silence() -> None:
    """The end of the stream is heard in one turn, the end of the session is told in the next. In between, a commit told
    its listeners: sending failed, so nobody confirmed what had just become durable."""
    async with pair() as both:
        client = await both.dial()
        data, control = await client.open_channel(), await client.open_channel()
        link = PlatformLink(HUB, data, control, 100)
        assert link.room == 100
        client.link.eof_received()
        with pytest.raises(LocalMisuse):
            data.publish("", "q", header(b"x"), b"x")
        assert link.room == 0
        for frame in FRAMES:
            link.send(frame)


async def test_what_cannot_be_read_gives_its_credit_back(inprocess: InProcess) -> None:
    """Alone in its turn: nothing that could be read comes with it."""
    hub = await inprocess.platform()
    node = await inprocess.local("10008", hub.port)
    await linked(node)
    link = hub.links.links["1.10008"]
    room, counts = link.room, node.engine.core.counters.counts
    link._out += 1
    link.data.deliver("umx", "nobody's address", header(b"x"), b"x", False, 0)
    assert link.room == room - 1
    await until(lambda: link.room == room)
    assert counts["violation"] == 1
    assert node.uplink.link is not None
