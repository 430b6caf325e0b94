"""The datagrams of one link: which frames leave as datagrams, and the records about channels as packets of the link."""

from collections.abc import Callable, Sequence
from typing import Any

from semq.amqp.content import ContentHeader
from semq.datagrams.counts import DatagramCounts
from semq.datagrams.document import CarriedDocument
from semq.datagrams.port import DatagramPort
from semq.umx_t.address import Address
from semq.umx_t.envelope import Body, Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import ChannelRecord


class LinkDatagrams:
    """The datagrams beside one link."""

    def __init__(
        self,
        port: DatagramPort,
        own: Address,
        peer: Address,
        counts: DatagramCounts,
        send: Callable[[Packet], None],
        take: Callable[[CarriedDocument], bool],
        accept: Callable[["LinkDatagrams", ChannelRecord], None] | None = None,
    ) -> None:
        """``send`` sends a packet over the link. ``take`` gets documents that have arrived; it returns False without
        room. ``accept`` gets the channels that the peer offers; None: they are ignored."""
        self.peer = peer
        self._port = port
        self._accept = accept
        self.session = port.begin(
            counts, lambda record: send(Packet(own, peer, Function.DATAGRAMS, Primitive.INDICATION, [record])), take
        )

    @property
    def is_open(self) -> bool:
        """Whether datagrams pass now."""
        return self.session.open_channel is not None

    def sends(self, frame: Frame, routing_key: str, header: ContentHeader, body: Body, room: int) -> bool:
        """Send a frame as a datagram, or drop it if it may be lost and the connection has no ``room`` either; return
        False if it must be sent over the connection."""
        if not isinstance(frame, Data) or not frame.envelope.attributes.is_best_effort:
            return False
        if self.session.send(CarriedDocument(routing_key, header, bytes(body))):
            return True
        if room > 0:
            return False
        self.session.counts.no_room += 1
        return True

    def takes_packet(self, frame: Frame) -> bool:
        """Take a packet of the peer about channels; False: the frame is another one."""
        if not isinstance(frame, Packet) or frame.function is not Function.DATAGRAMS or frame.source.node != self.peer:
            return False
        records: Sequence[Any] = frame.records
        for record in records:
            if not record.secret:
                self.session.take_report(record)
            elif self._accept is not None:
                self._accept(self, record)
        return True

    def end(self) -> None:
        """End the session: the link has ended."""
        self._port.end(self.session)
