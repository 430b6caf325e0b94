"""The other instances of the hub: messages for their stores, and for nodes with sessions at them.

Each instance serves one store, and the sessions of some nodes: it is the *front* of these nodes. Outdated information
about other instances only delays messages (S9, S11, H15).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from semq.engine.frames import frame_bytes
from semq.engine.hub.carrier import (
    Acknowledged,
    Alive,
    Asking,
    Came,
    Credit,
    HubCarrier,
    Message,
    Passed,
    PresentSessions,
    StoreFrames,
    StoreName,
    Went,
)
from semq.engine.hub.freshness import Freshness, Novelty
from semq.engine.hub.fronts import CarriedHub, Fronts
from semq.engine.hub.speakers import message_fault
from semq.engine.hub.unserved_homes import UnservedHomes
from semq.engine.ports import Link, runs
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame, Packet
from semq.umx_t.records import AckFlag, Inquiry, Receipt

BEYOND_BYTES_MAX = 16 << 20  # bytes of documents and their headers for a session without room


class Homes(Protocol):
    """The stores of the hub, and the homes of nodes."""

    def of(self, node: Address) -> StoreName | None:
        """Return the home of a node, the store in which documents for it wait; None if it has no home."""

    def is_in_use(self, store: StoreName) -> bool:
        """Whether ``store`` is a store of the hub that is not retired."""

    def in_use(self) -> Collection[StoreName]:
        """Return all stores of which this holds."""


class Cluster(NamedTuple):
    """The ports of one instance."""

    carrier: HubCarrier
    homes: Homes
    end_second: Callable[[Address], None]  #: ends the session here of a node that has an earlier session elsewhere


class Instances:
    """The other instances, named by their incarnations."""

    def __init__(self, hub: CarriedHub, store: StoreName, cluster: Cluster) -> None:
        self._hub = hub
        self._core = hub.core
        self._store = store
        self._carrier, self._homes, end_second = cluster
        self.fronts = Fronts(hub, store, self._carrier, end_second)
        self._unserved = UnservedHomes(hub.core, self._homes.is_in_use)
        self._freshness = Freshness()
        self._arrived: dict[str, dict[int, int]] = {}  #: last document number, by node and sending instance
        self._to_credit: set[str] = set()  #: nodes whose room ``flush`` reports
        self._beyond: dict[str, int] = {}  #: bytes sent to sessions without room, by node

    def went(self, link: Link) -> None:
        self._arrived.pop(str(link.peer), None)
        self._beyond.pop(str(link.peer), None)
        self.fronts.went(link)

    def note_room(self, link: Link) -> None:
        node = str(link.peer)
        self._beyond.pop(node, None)
        if node in self._arrived:
            self._to_credit.add(node)
            self._core.mail.schedule_flush()

    def flush(self) -> None:
        """Report the room of sessions to the instances that send to them."""
        nodes, self._to_credit = self._to_credit, set()
        for node in nodes:
            session, own = self._hub.sessions.get(node), self.fronts.own.get(node)
            if session is not None and own is not None:
                for life, number in self._arrived.get(node, {}).items():
                    self._carrier.to_front(life, Credit(node, own.session, number, session.link.room))

    # --- frames about other stores
    def route(self, peer: Address, messages: Sequence[Data]) -> list[Data]:
        """Send messages to the homes of their targets. Return the messages that stay here: those with a fault, and
        those to a target whose home is here or that has no home.

        The new signature of a copy stays here, and goes to all other stores: the copy may be in a former home.
        """
        here: list[Data] = []
        away: dict[StoreName, list[Data]] = {}
        for message in messages:
            if message.is_bare and message_fault(peer, message.envelope) is None:
                here.append(message)
                for store in self._homes.in_use():
                    if store != self._store:
                        away.setdefault(store, []).append(message)
                continue
            home = self._homes.of(message.envelope.target.node)
            if home is None or home == self._store or message_fault(peer, message.envelope) is not None:
                here.append(message)
            else:
                away.setdefault(home, []).append(message)
        for store, frames in away.items():
            self._core.count("carried", len(frames))
            self._send_to_store(store, peer, frames)
        return here

    def split(self, peer: Address, packet: Packet) -> Packet | None:
        """Send records about copies to the stores of the copies. Return a packet of the rest; None if there is none."""
        here: list[object] = []
        away: dict[StoreName, list[object]] = {}
        for record in packet.records:
            store = named_store(record)
            if store is None or store == self._store or not self._homes.is_in_use(store):
                here.append(record)
            else:
                away.setdefault(store, []).append(record)
        for store, records in away.items():
            self._send_to_store(store, peer, [_with_records(packet, records)])
        if not away:
            return packet
        return _with_records(packet, here) if here else None

    def ask_home(self, packet: Packet, inquiries: Sequence[object]) -> bool:
        """Send inquiries to the home of the packet's target. Return False if the home is here or unknown."""
        home = self._homes.of(packet.target.node)
        if home is None or home == self._store:
            return False
        self._send_to_store(home, packet.source.node, [_with_records(packet, inquiries)])
        return True

    def acknowledged(self, node: Address, idents: Sequence[str]) -> None:
        """Report an Ack2 of a node to the node's home, which has forwarded the messages."""
        home = self._homes.of(node)
        if home is not None and home != self._store:
            self._carrier.to_store(home, Acknowledged(str(node), tuple(idents)))

    # --- messages of others
    def is_new(self, life: int, number: int, *, to_front: bool) -> bool:
        """Whether the messages of a batch may be received. ``to_front``: it came to the queue of this incarnation."""
        novelty = self._freshness.note(life, number, proves=to_front)
        if novelty is Novelty.REPEATED:
            self._core.count("carrier_repeated")
        elif novelty is Novelty.UNPROVED:
            self._core.count("carrier_unproved")
            if self._freshness.must_ask(life, self._core.now()):
                self.fronts.introduce(life)
        return novelty is Novelty.NEW

    def receive(self, life: int, message: Message) -> None:
        self.fronts.note_sign_of_life(life)
        if isinstance(message, Asking | Alive | PresentSessions):
            self._unserved.note_served(message.store)
        HANDLERS[type(message)](self, life, message)

    def note_returned(self, store: StoreName, message: Message) -> None:
        """Process a message that came back because no instance serves ``store``."""
        self._core.count("carrier_returned")
        if isinstance(message, StoreFrames):
            self._unserved.note(store, message)

    def note_ended(self, life: int) -> None:
        self.fronts.note_ended(life)

    def note_joined(self) -> None:
        self.fronts.note_joined()

    def note_cut(self) -> None:
        self.fronts.note_cut()

    # --- inside
    def _send_to_store(self, store: StoreName, speaker: Address, frames: Sequence[Frame]) -> None:
        self._carrier.to_store(store, StoreFrames(speaker, frames))

    def _receive_frames(self, life: int, message: StoreFrames) -> None:
        for run in runs(message.frames):
            if isinstance(run, list):
                self._hub.relay.receive_messages(message.speaker, run)
            else:
                self._hub.receive_checked_packet(message.speaker, run)

    def _receive_credit(self, life: int, credit: Credit) -> None:
        link = self.fronts.link(life, credit.node, credit.session)
        if link is not None:
            link.note_credit(credit)
            self._hub.send_waiting(link)

    def _receive_acknowledged(self, life: int, message: Acknowledged) -> None:
        session = self._hub.sessions.get(message.node)
        if session is not None:
            self._hub.relay.acknowledged(session, message.idents)

    def _deliver(self, life: int, passed: Passed) -> None:
        """Send a frame to a node. Drop documents for a session without room beyond BEYOND_BYTES_MAX."""
        node = passed.node
        session, own = self._hub.sessions.get(node), self.fronts.own.get(node)
        if session is None or own is None or own.session != passed.session:
            self._carrier.to_front(life, Went(node, passed.session))
            return
        if isinstance(passed.frame, Data):
            arrived = self._arrived.setdefault(node, {})
            arrived[life] = max(arrived.get(life, 0), passed.number)
            self._to_credit.add(node)
            self._core.mail.schedule_flush()
            if session.link.room <= 0:
                self._beyond[node] = self._beyond.get(node, 0) + frame_bytes(passed.frame)
                if self._beyond[node] > BEYOND_BYTES_MAX:
                    self._core.count("carrier_dropped")
                    return
        session.link.send(passed.frame)


HANDLERS: dict[type[Message], Callable[[Instances, int, Any], None]] = {
    StoreFrames: Instances._receive_frames,
    Passed: Instances._deliver,
    Credit: Instances._receive_credit,
    Acknowledged: Instances._receive_acknowledged,
    Came: lambda self, life, message: self.fronts.receive_came(life, message),
    Went: lambda self, life, message: self.fronts.receive_went(life, message),
    PresentSessions: lambda self, life, message: self.fronts.receive_present_sessions(life, message),
    Asking: lambda self, life, message: self.fronts.receive_asking(life, message),
    Alive: lambda self, life, message: self.fronts.receive_alive(life, message),
}


def named_store(record: object) -> StoreName | None:
    """Return the store of the copy that a record names; None if the record names no copy."""
    if isinstance(record, Receipt):
        return (record.src_semq_id, record.src_semq_db_id) if record.ack_flag is AckFlag.TRANSPORT else None
    if isinstance(record, Inquiry) and record.lk1 is not None:
        return record.lk1[0], record.lk1[1]
    return None


def _with_records(packet: Packet, records: Sequence[object]) -> Packet:
    return Packet(packet.source, packet.target, packet.function, packet.primitive, records)
