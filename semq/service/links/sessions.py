"""The listening end of links: exchange ``umx``, and for each institution a queue of documents and a queue of packets.

A node consumes ``node.<type>.<id>`` (documents) and ``node.<type>.<id>.control`` (packets). It is online while one
session has both consumers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

import structlog
from msgspec import Struct

from semq.amqp.errors import AccessRefused, AmqpError, ConnectionForced, NotAllowed, ResourceLocked
from semq.broker.queues.queue import Disposition
from semq.broker.services import (
    CONFIRMED,
    NACKED,
    OfferedMessage,
    Outcome,
    ServiceConsumer,
    ServiceExchange,
    ServiceQueue,
    SessionInfo,
)
from semq.datagrams.document import CarriedDocument
from semq.engine.core import Core
from semq.engine.errors import NotYours, StoreStatementUnreadable, TooManyLogins
from semq.engine.frames import is_packet, read_datagram, read_frame, write_frame
from semq.engine.ports import Link
from semq.errors import SemqError
from semq.service.datagrams.ends import OfferingEnd
from semq.service.datagrams.link import LinkDatagrams
from semq.service.engine_handle import CoreEngine, EngineHandle
from semq.service.intake import Intake
from semq.service.links.allowance import RateAllowance
from semq.service.links.packet_limit import PacketLimit
from semq.service.links.rights import UMX
from semq.transport.turn import Turn
from semq.umx_t.address import Address, parse_address
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Presence
from semq.umx_t.version import PROPERTY, agree

MESSAGES_MAX = 1024  # unacknowledged messages of a node whose consumer has no prefetch
# Logins of one node are limited: at each one the hub sends the node the records of its partners, and them its presence.
LOGINS_MAX, LOGINS_PER_S = 60, 0.5
DATAGRAM_BYTES_MAX = 4 << 20  # while more bytes of a session wait in the intake, its datagrams are dropped
STORE_UUID = re.compile("[0-9a-fA-F-]{0,36}")  # empty: not stated
INCARNATION = re.compile("[0-9a-f]{0,16}")
Refuse = Callable[[SemqError], None]  # refuses a login
SeenDocument = tuple[str, int]  # LK0; when its node accepted or recorded it, in ms since 1970
log = structlog.get_logger("semq.links")


def queue_name(node: Address) -> str:
    """Return the name of a node's queue of documents."""
    return f"node.{node}"


def control_name(node: Address) -> str:
    """Return the name of a node's queue of packets. It is separate so that documents never delay a receipt."""
    return f"node.{node}.control"


class NodeConsumer(ServiceConsumer, Protocol):
    """A consumer of a node's queue."""

    prefetch: int  #: unacknowledged messages that the node accepts; 0: unlimited


class NodeLink:
    """The session of an online node. Implements the engine's ``Link``."""

    def __init__(
        self,
        peer: Address,
        session: SessionInfo,
        data: ServiceConsumer,
        control: ServiceConsumer,
        bytes_max: int,
        core: Core,
    ) -> None:
        self.peer = peer
        self.version = agree(session.client_properties.get(PROPERTY))
        self.session = session
        self.data = data
        self.control = control
        self.datagrams: LinkDatagrams | None = None
        self._messages_max = cast(NodeConsumer, data).prefetch or MESSAGES_MAX
        self._bytes_max = bytes_max
        self._core = core
        self._packet_limit = PacketLimit()
        self._unacked_messages = 0
        self._unacked_bytes = 0
        self.is_up = True

    def end(self) -> None:
        self.is_up = False
        if self.datagrams is not None:
            self.datagrams.end()

    @property
    def room(self) -> int:
        """The number of messages that the session takes now; 0 at the limit of unacknowledged bytes."""
        # A full socket does not count: to let messages wait in the session's output costs far less than to store them.
        if not self.is_up or self._unacked_bytes >= self._bytes_max:
            return 0
        return self._messages_max - self._unacked_messages

    @property
    def takes_datagrams(self) -> bool:
        """Whether best-effort documents leave as datagrams now."""
        return self.datagrams is not None and self.datagrams.is_open

    def send(self, frame: Frame) -> None:
        """Send a frame as a datagram, or deliver it to its consumer. Drop it after the end of the session."""
        if not self.is_up:
            return
        try:
            routing_key, header, content = write_frame(frame, self.version)
        except SemqError as error:  # the caller has committed its work and must continue
            log.error("not_sent", error=str(error))
            return
        body = content if isinstance(content, bytes) else bytes(content)
        if self.datagrams is not None and self.datagrams.try_send(frame, routing_key, header, body, self.room):
            return
        if isinstance(frame, Data):
            size = len(header.raw) + len(body)
            self._unacked_messages += 1
            self._unacked_bytes += size
            self.data.deliver(UMX, routing_key, header, body, False, size)
        elif self._admits(frame, len(header.raw) + len(body)):
            self.control.deliver(UMX, routing_key, header, body, False, None)
        else:
            self._core.count("packets_dropped")

    def _admits(self, packet: Packet, size: int) -> bool:
        """Return whether a packet may be sent now: always if it is this node's own."""
        if packet.source.node == self._core.address:
            return True
        return self._packet_limit.admits(str(packet.source.node), size, self.session.unsent() - self._unacked_bytes)

    def settled(self, sizes: list[int]) -> None:
        """Note acknowledged messages by their sizes in bytes."""
        self._unacked_messages -= len(sizes)
        self._unacked_bytes -= sum(sizes)


class NodeStatement(Struct, frozen=True):
    """A node's statement about its store and process, in the properties of its login."""

    store_uuid: str
    boot: int  #: number of openings of the store
    incarnation: str


class ListeningEngine(CoreEngine, Protocol):
    """The engine of a hub, or of a node with direct links."""

    def link_up(self, link: Link) -> None:
        """Begin a session."""

    def link_down(self, link: Link) -> None:
        """End a session."""

    def receive(self, link: Link, frames: Sequence[Frame]) -> None:
        """Process the frames of a session, in order."""

    def send_waiting(self, link: Link) -> None:
        """Send waiting messages, because the session has room again."""

    def note_violation(self, source: Address, error: SemqError) -> None:
        """Note a violation by ``source`` in the ledger."""


class Links:
    """The queues of all institutions, and the sessions of the nodes that are online."""

    def __init__(
        self,
        engine: EngineHandle[ListeningEngine],
        turn: Turn,
        bytes_max: int,
        note_store: Callable[[str, str, int, Refuse], int] = lambda node, store_uuid, boot, refuse: 0,
        refuse_attachment: Callable[[Address], AmqpError | None] = lambda node: None,
        datagrams: OfferingEnd | None = None,
    ) -> None:
        self._engine = engine
        self._datagrams = datagrams
        self.refuse_attachment = refuse_attachment  #: returns why a node may not attach its queues now
        #: called at each login; refuses the login by raising a SemqError, or by calling the function that it gets
        self._note_store = note_store
        self._bytes_max = bytes_max  #: unacknowledged bytes of a session
        self.links: dict[str, NodeLink] = {}
        self.statements: dict[str, NodeStatement] = {}  #: the last one of each node
        self.starts_seen: dict[str, int] = {}  #: of nodes whose store was restored: a start that is not before theirs
        self._last_seen: dict[str, tuple[str, SeenDocument]] = {}  #: of each node: its store, and the document
        self._former_seen: dict[str, SeenDocument] = {}  #: the last one of the process before the present one
        self._consumers: dict[str, dict[str, ServiceConsumer]] = {}  #: by node and name of the queue
        self._logins = RateAllowance(LOGINS_MAX, LOGINS_PER_S)
        self.intake: Intake[SessionInfo, OfferedMessage] = Intake(self._process, engine.post, turn)

    def exchange(self, frame_bytes_max: int) -> ServiceExchange:
        """Return exchange ``umx``. A frame with a body over ``frame_bytes_max`` reaches the engine without the body."""
        return UmxExchange(self, frame_bytes_max)

    def queues(self, nodes: Sequence[Address]) -> list[ServiceQueue]:
        """Return the two queues of each institution."""
        return [NodeQueue(self, node, name_of(node)) for node in nodes for name_of in (queue_name, control_name)]

    # --- login
    def check_login(self, session: SessionInfo) -> None:
        """Note the statement of a node that has logged in, or refuse the session."""
        properties = session.client_properties
        try:
            agree(properties.get(PROPERTY))
            if str(properties.get("node", session.user)) != session.user:
                claimed = str(properties.get("node"))[:80]
                raise NotYours("A node logs in under the name of another node.", claims=claimed)
            statement = _read_statement(properties)
            previous = self.statements.get(session.user)
            refuse = partial(self._refuse_stated, session, statement, previous)
            boot_noted = self._note_store(session.user, statement.store_uuid, statement.boot, refuse)
        except SemqError as error:
            self._refuse(session, error)
            return
        self._note_start(session.user, statement, previous, boot_noted)
        self.statements[session.user] = statement

    def _refuse_stated(
        self, session: SessionInfo, statement: NodeStatement, previous: NodeStatement | None, error: SemqError
    ) -> None:
        """Refuse a session whose statement was noted, and note the previous one again."""
        # If the statement of another store stayed, the next login could not show that the right store was restored.
        if self.statements.get(session.user) is statement:
            del self.statements[session.user]
            if previous is not None:
                self.statements[session.user] = previous
        self._refuse(session, error)

    def _refuse(self, session: SessionInfo, error: SemqError) -> None:
        log.error("login_refused", node=session.user, error=str(error))
        session.close(NotAllowed(error.advice()))

    # --- presence
    def attach(self, node: Address, name: str, consumer: ServiceConsumer) -> None:
        consumers = self._consumers.setdefault(str(node), {})
        consumers[name] = consumer
        data, control = consumers.get(queue_name(node)), consumers.get(control_name(node))
        if data is not None and control is not None and data.session is control.session:
            if not self._logins.take(str(node), self._engine.current.core.now()):
                error = TooManyLogins(node=str(node))
                self._engine.current.note_violation(node, error)
                data.session.close(ConnectionForced(error.advice()))
                return
            link = NodeLink(node, data.session, data, control, self._bytes_max, self._engine.current.core)
            self.links[str(node)] = link
            self._engine.current.link_up(link)
            self._report_start_seen(node)
            if self._datagrams is not None:
                on_document = partial(self._put_datagram, data.session)
                link.datagrams = self._datagrams.begin(node, data.session.client_properties, link.send, on_document)

    def _note_start(self, node: str, statement: NodeStatement, previous: NodeStatement | None, boot_noted: int) -> None:
        """Note whether the store of a node was restored: another process with it has had the same or a later start.

        ``boot_noted``: the number of openings at the login before.
        """
        earlier = previous if previous is not None and previous.store_uuid == statement.store_uuid else None
        if earlier == statement:
            return  # the same process
        seen = max(boot_noted if boot_noted > statement.boot else 0, earlier.boot if earlier is not None else 0)
        self.starts_seen.pop(node, None)
        self._former_seen.pop(node, None)
        store_uuid, last_seen = self._last_seen.get(node, ("", None))
        if last_seen is not None and store_uuid == statement.store_uuid:
            self._former_seen[node] = last_seen
        if seen >= statement.boot:
            self.starts_seen[node] = seen
            log.error("node_restored", node=node, boot=statement.boot, boot_before=seen)

    def _report_start_seen(self, node: Address) -> None:
        """Tell a node what shows that its store was restored from a backup, because it cannot know this itself."""
        seen, last_seen = self.starts_seen.get(str(node), 0), self._former_seen.get(str(node))
        if seen or last_seen is not None:
            lk0, at = last_seen or ("", 0)
            record = Presence(node=str(node), online=True, start_seen=seen, last_seen=lk0, last_seen_at=at)
            self._engine.current.core.mail.add(node, Function.PRESENCE, Primitive.INDICATION, record)

    def detach(self, node: Address, name: str, consumer: ServiceConsumer) -> None:
        consumers = self._consumers.get(str(node), {})
        if consumers.get(name) is consumer:
            del consumers[name]
        link = self.links.get(str(node))
        if link is not None and consumer in (link.data, link.control):
            self.end_link(link)

    def end_link(self, link: NodeLink) -> None:
        """End a link. Process its messages in the intake, at most those of one turn; refuse the rest."""
        _refuse(self.intake.finish(link.session))
        link.end()
        if self.links.get(str(link.peer)) is link:
            del self.links[str(link.peer)]
        self._engine.current.link_down(link)

    def end_session_of(self, node: str, error: AmqpError) -> None:
        link = self.links.get(node)
        if link is not None:
            link.session.close(error)

    def end_all_sessions(self, error: AmqpError) -> None:
        """End all sessions, because a new engine starts."""
        for link in self.links.values():
            link.end()
            self._engine.current.link_down(link)  # the node may already have logged in at the new engine
        # Close sessions with only one consumer, too: that consumer is forgotten below, so the node would not come
        # online when it attached the other one.
        sessions = [consumer.session for consumers in self._consumers.values() for consumer in consumers.values()]
        for session in dict.fromkeys(sessions):
            session.close(error)
        self.links.clear()
        self._consumers.clear()
        _refuse(self.intake.forget())

    # --- frames of nodes
    def _process(self, session: SessionInfo, messages: list[OfferedMessage]) -> None:
        link = self.links.get(session.user)
        frames: list[Frame] = []
        for message in messages:
            frame = self._read(session, message)
            if isinstance(frame, Packet) and frame.function is Function.DATAGRAMS:
                # Packets about channels are never forwarded.
                if link is not None and link.datagrams is not None:
                    link.datagrams.handle_packet(frame)
            elif frame is not None:
                frames.append(frame)
        # A session that does not consume the node's queues may be a clone of the node.
        if link is not None and link.session is session and frames:
            statement = self.statements.get(session.user)  # None after a refusal of its store
            if statement is not None and (seen := last_document(frames)) is not None:
                self._last_seen[session.user] = statement.store_uuid, seen
            self._engine.current.receive(link, frames)
        for message in messages:
            message.settle(CONFIRMED)

    def _put_datagram(self, session: SessionInfo, document: CarriedDocument) -> bool:
        """Put a datagram behind the frames of its session. Return False if too many bytes wait."""
        if self.intake.waiting_bytes_of(session) > DATAGRAM_BYTES_MAX:
            return False
        routing_key, header, body = document
        message = OfferedMessage(session, routing_key, header, body, False, not_acknowledged)
        self.intake.put(session, message, len(header.raw) + len(body))
        return True

    def _read(self, session: SessionInfo, message: OfferedMessage) -> Frame | None:
        """Return the frame. If it is unreadable, note a violation and return None; the link stays up."""
        try:
            if message.settle is not_acknowledged:
                return read_datagram(message.routing_key, message.header, message.body)
            return read_frame(message.routing_key, message.header, message.body)
        except SemqError as error:
            self._engine.current.note_violation(parse_address(session.user), error)
            return None

    def resume(self, node: Address) -> None:
        link = self.links.get(str(node))
        if link is not None:
            self._engine.current.send_waiting(link)


def last_document(frames: Sequence[Frame]) -> SeenDocument | None:
    """Return the last document of class 3 that a node has sent or received, according to its frames.

    The ledger of the node has a line about it, because both is committed before a frame leaves.
    """
    for frame in reversed(frames):
        if isinstance(frame, Data):
            if frame.envelope.is_class3:
                return frame.envelope.ident, frame.envelope.submitted_at
        elif (frame.function, frame.primitive) == (Function.RECEIPTS, Primitive.INDICATION):
            for record in reversed(frame.records):
                if record.ack_flag is AckFlag.END_TO_END and record.status is Answer.RECV:
                    return record.ident, record.at
    return None


def not_acknowledged(outcome: Outcome) -> None:
    """Do nothing: the ``settle`` of a document that arrived as a datagram. ``_read`` recognises datagrams by it."""


def _refuse(messages: Sequence[OfferedMessage]) -> None:
    for message in messages:
        message.settle(NACKED)


def _read_statement(properties: Mapping[str, object]) -> NodeStatement:
    """Read a node's statement from its login properties. Raises StoreStatementUnreadable."""
    store_uuid, incarnation = str(properties.get("store_uuid", "")), str(properties.get("incarnation", ""))
    # A text that Postgres refuses would fail the work of all nodes in the transaction.
    if not STORE_UUID.fullmatch(store_uuid) or not INCARNATION.fullmatch(incarnation):
        raise StoreStatementUnreadable(store_uuid=store_uuid[:80], incarnation=incarnation[:80])
    return NodeStatement(store_uuid, _read_boot(properties), incarnation)


def _read_boot(properties: Mapping[str, object]) -> int:
    """Return the number of openings that a node states; 0 if it states none that Postgres can store."""
    boot = properties.get("boot")
    return boot if isinstance(boot, int) and 0 <= boot < 2**63 else 0


class UmxExchange(ServiceExchange):
    """Exchange ``umx``, to which nodes publish. The routing key is the target's address."""

    drains = True
    confirms_later = True
    __slots__ = ("_links",)

    def __init__(self, links: Links, body_max: int) -> None:
        super().__init__(UMX, "x-umx", body_max)
        self._links = links

    def publish(self, message: OfferedMessage) -> None:
        """Put a frame into the intake. Its confirm is flow control only (PROTOCOL.md section 14)."""
        size = len(message.header.raw) + len(message.body)
        self._links.intake.put(message.session, message, size, is_packet=is_packet(message.header))


class NodeQueue(ServiceQueue):
    """One of the two queues of an institution, for one consumer."""

    def __init__(self, links: Links, node: Address, name: str) -> None:
        super().__init__(name)
        self._links = links
        self._node = node
        self._consumer: ServiceConsumer | None = None

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        if session.user != str(self._node):
            return AccessRefused(f"queue '{self.name}' belongs to node {self._node}")
        if self._consumer is not None:
            # A newer session replaces only a dead one (PROTOCOL.md section 10).
            log.warning("second_session", node=str(self._node), peer=str(session.peer), queue=self.name)
            return ResourceLocked(
                f"node {self._node} has another session; a dead one is ended after two heartbeat intervals"
            )
        return self._links.refuse_attachment(self._node)

    def attach(self, consumer: ServiceConsumer) -> None:
        self._consumer = consumer
        self._links.attach(self._node, self.name, consumer)

    def detach(self, consumer: ServiceConsumer) -> None:
        if self._consumer is consumer:
            self._consumer = None
        self._links.detach(self._node, self.name, consumer)

    def resume(self, consumer: ServiceConsumer) -> None:
        self._links.resume(self._node)

    def settled(self, consumer: ServiceConsumer | None, tokens: list[Any], disposition: Disposition) -> None:
        link = self._links.links.get(str(self._node))
        if link is not None and consumer is link.data:
            link.settled(tokens)
            self._links.resume(self._node)

    def counts(self, answer: Callable[[int, int], None]) -> None:
        answer(0, 1 if self._consumer is not None else 0)
