"""A test plays institution 10008 over a real link, and sends only the frames that it makes itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.engine.frames import read_frame, write_frame
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope, Frame, Packet
from semq.umx_t.locator import LK0
from tests.service.inprocess import InProcess
from tests.transport.publishing import publish_and_wait

ME, OTHER, HUB = Address(1, "10008"), Address(1, "56001"), Address(2, "hub")
LOGIN = {"user": "1.10008", "password": "pass-10008", "virtual_host": "umx"}
PROPERTIES = {"node": "1.10008", "store_uuid": "a", "boot": 1, "incarnation": "1"}


@dataclass
class Peer:
    """The test's end of the link of 10008."""

    link: ClientLink
    data: ClientChannel
    records: list[Any] = field(default_factory=list)  #: in order of arrival
    documents: list[Delivered] = field(default_factory=list)  #: in order of arrival

    async def send_frame(self, frame: Frame) -> None:
        key, header, body = write_frame(frame)
        assert await publish_and_wait(self.data, "umx", key, header, bytes(body))

    async def send_bytes(self, to: Address, type_: str, body: bytes, source: str = "1.10008") -> None:
        """Send any bytes as a message; ``type_`` and ``source``: its properties type and app_id."""
        header = ContentHeader.build(len(body), Properties(type=type_, app_id=source))
        assert await publish_and_wait(self.data, "umx", str(to), header, body)

    def keep_records(self, batch: Sequence[Delivered]) -> None:
        for delivered in batch:
            frame = read_frame(delivered.routing_key, delivered.header, delivered.body)
            assert isinstance(frame, Packet)
            self.records += frame.records

    def count(self, **facts: Any) -> int:
        """Return the number of received records with these values."""
        return sum(all(getattr(r, name, None) == value for name, value in facts.items()) for r in self.records)


async def log_in_by_hand(inprocess: InProcess, hub: HubNode, **properties: Any) -> Peer:
    """Log in as 10008 with these further client properties."""
    link = await inprocess.client(hub, **LOGIN, client_properties=PROPERTIES | properties)
    data, control = await link.open_channel(), await link.open_channel()
    await data.confirm_select()
    peer = Peer(link, data)
    await data.consume("node.1.10008", peer.documents.extend)
    await control.consume("node.1.10008.control", peer.keep_records, no_ack=True)
    return peer


def message(number: int, sid: int = 0) -> Data:
    """Return a document of 10008 to 56001; ``number`` is the last part of its LK0."""
    envelope = Envelope(
        source=ME, target=OTHER, lk0=LK0(1, "10008", 1, 1, 5, number), attributes=Attributes(), sid=sid,
        digest=sha256(b"x").digest(),
    )  # fmt: skip
    return Data(envelope, b"x")
