"""The datagrams of one link: the choice of the frames that leave as datagrams, and the packets about channels."""

from collections.abc import Callable

from semq.amqp.content import ContentHeader
from semq.answers.status import DatagramCounts
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
        send_packet: Callable[[Packet], None],
        on_document: Callable[[CarriedDocument], bool],
        on_offer: Callable[["LinkDatagrams", ChannelRecord], None] | None = None,
    ) -> None:
        """``send_packet`` sends a packet over the link. ``on_document`` is called with each document that arrives, and
        returns False if there is no room for it. ``on_offer`` is called with each channel that the peer offers; None:
        offers are ignored.
        """

        def send_record(record: ChannelRecord) -> None:
            send_packet(Packet(own, peer, Function.DATAGRAMS, Primitive.INDICATION, [record]))

        self.peer = peer
        self._port = port
        self._on_offer = on_offer
        self.session = port.begin(counts, send_record, on_document)

    @property
    def is_open(self) -> bool:
        """Whether datagrams pass now."""
        return self.session.open_channel is not None

    def try_send(self, frame: Frame, routing_key: str, header: ContentHeader, body: Body, room: int) -> bool:
        """Send a best-effort document as a datagram; return False if the frame must be sent over the connection.

        If the document cannot leave as a datagram, and the connection has no ``room`` (in messages), it is dropped, and
        True is returned.
        """
        if not isinstance(frame, Data) or not frame.envelope.attributes.is_best_effort:
            return False
        if self.session.send(CarriedDocument(routing_key, header, bytes(body))):
            return True
        if room > 0:
            return False
        self.session.counts.no_room += 1
        return True

    def handle_packet(self, frame: Frame) -> bool:
        """Handle a packet of the peer about channels; return False for any other frame."""
        if not isinstance(frame, Packet) or frame.function is not Function.DATAGRAMS or frame.source.node != self.peer:
            return False
        for record in frame.records:
            if not record.secret:
                self.session.process_report(record)
            elif self._on_offer is not None:
                self._on_offer(self, record)
        return True

    def end(self) -> None:
        self._port.end(self.session)
