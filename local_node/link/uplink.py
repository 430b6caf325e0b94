"""A link that this node dials, and dials again after a loss: to the hub, or directly to a partner.

Rules: PROTOCOL.md sections 10, 14 and 26. AMQP confirms and acks only limit the documents in progress; they prove
neither custody nor receipt.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import replace
from msgspec.structs import replace as replace_packet

from local_node.link.hub_addresses import DialAddresses
from semq.amqp.errors import AmqpError, Broken
from semq.amqp.events import Delivered
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.answers.messages import LinkOutage
from semq.clock import Clock
from semq.datagrams.document import CarriedDocument
from semq.engine.frames import read_datagram, read_frame, write_frame
from semq.engine.local_engine import LocalEngine
from semq.errors import SemqError
from semq.pki.errors import Revoked, WrongName
from semq.service.credentials.identity import certificate_of
from semq.service.datagrams.ends import DiallingEnd
from semq.service.datagrams.link import LinkDatagrams
from semq.service.engine_handle import EngineHandle
from semq.service.intake import Intake
from semq.service.links.rights import UMX
from semq.store.work import after_commit
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import NotTrusted
from semq.transport.peer import PeerInfo
from semq.transport.turn import Turn
from semq.umx_t import retry
from semq.umx_t.address import Address, NodeType, parse_address
from semq.umx_t.envelope import Data, Frame, Function, Packet
from semq.umx_t.errors import IntakeOverflow
from semq.umx_t.version import PROPERTY, agree

HEARTBEAT_S = 10
WAITING = "packets wait"  # why reading from the peer is paused
PRESENCE_PER_TURN = 16  # records
PRESENCE_PARTS_MAX = 4  # while more parts wait, the peer's next packets wait, too
PARTNER_BYTES_MAX = 2 << 20  # waiting packets of one partner; further ones are dropped
PACKETS_BYTES_MAX = 32 << 20  # all waiting packets; beyond this, nothing is read
DATAGRAM_BYTES_MAX = 4 << 20  # waiting documents that arrived as datagrams; further ones are dropped
log = structlog.get_logger("semq.uplink")


class UplinkSettings(Struct, frozen=True):
    """The limits of the traffic in progress, and the pauses between attempts to connect."""

    reconnect_s_min: float = 0.5
    reconnect_s_max: float = 10.0
    unconfirmed_max: int = 1024  #: published messages that the peer has not confirmed
    prefetch: int = 1024  #: messages of the peer without acknowledgement


def link_limits(bytes_max: int) -> ConnectionLimits:
    """Return the limits of a session.

    A content above ``bytes_max`` reaches the engine without its body. If it closed the channel instead, its sender
    would send it again in every new session, and so end each session.
    """
    return ConnectionLimits(
        heartbeat=HEARTBEAT_S, body_max=ANY_SIZE, arriving_max=2 * bytes_max, stream_from=bytes_max + 1
    )


class DialledLink:
    """One session with the hub or a partner."""

    def __init__(
        self, peer: Address, version: int, data: ClientChannel, control: ClientChannel, unconfirmed_max: int
    ) -> None:
        self.peer = peer
        self.version = version  #: of the protocol
        self._data = data
        self._control = control
        self._unconfirmed_max = unconfirmed_max
        self.datagrams: LinkDatagrams | None = None
        self.is_up = True

    def end(self) -> None:
        self.is_up = False
        if self.datagrams is not None:
            self.datagrams.end()

    @property
    def room(self) -> int:
        """The number of messages that may be sent now."""
        if not self.is_up or not self._data.may_publish:
            return 0
        return self._unconfirmed_max - self._data.unconfirmed

    @property
    def takes_datagrams(self) -> bool:
        """Whether documents with @Reliable=0 leave as datagrams."""
        return self.datagrams is not None and self.datagrams.is_open

    def send(self, frame: Frame) -> None:
        """Send a frame as a datagram or over the connection.

        It is lost if the session is over or the frame cannot be written for this peer.
        """
        if not self.is_up:
            return
        channel = self._data if isinstance(frame, Data) else self._control
        try:
            routing_key, header, body = write_frame(frame, self.version)
            if self.datagrams is not None and self.datagrams.try_send(frame, routing_key, header, body, self.room):
                return
            channel.publish(UMX, routing_key, header, body)
        except SemqError as error:
            # The socket was lost in this turn, or the frame cannot be written for this peer. The caller has committed
            # and must continue; later, the node inquires.
            log.warning("not_sent", error=str(error))


async def _answer_nothing(client: ClientLink) -> None:
    """Answer no questions of the peer."""


class Uplink:
    """A link with the hub or a partner. After a loss or failure, it dials again until ``stop``."""

    def __init__(
        self,
        address: Address,
        addresses: DialAddresses,
        settings: UplinkSettings,
        engine: EngineHandle[LocalEngine],
        identity: Callable[[], Mapping[str, object]],
        clock: Clock,
        turn: Turn,
        answer_questions: Callable[[ClientLink], Awaitable[None]] = _answer_nothing,
        datagrams: DiallingEnd | None = None,
        partner: Address | None = None,
    ) -> None:
        """``answer_questions`` runs during each session, and answers the peer's questions about messages (PROTOCOL.md
        section 20). ``partner``: the node that must answer the dial; None for the hub.
        """
        self._partner = partner
        self._answer_questions = answer_questions
        self.datagrams = datagrams
        self._address = address
        self._addresses = addresses
        self._settings = settings
        self._engine = engine
        self._identity = identity  #: login properties (PROTOCOL.md section 27, *Login*)
        self._clock = clock
        self._turn = turn
        self._task: asyncio.Task[None] | None = None
        self._client: ClientLink | None = None
        self.link: DialledLink | None = None
        self.last_error = ""
        self._down_since = clock.wall()
        self._next_attempt: datetime | None = None  #: None while a session lasts or is being opened
        self._peer_reason = ""  #: why the peer ended the last session; later dials fail for less exact reasons
        self._received: list[Frame] = []
        self._presence: deque[Packet] = deque()
        self.intake: Intake[str, Delivered] = Intake(self._receive_packets, engine.post, turn)
        self.datagram_intake: Intake[None, CarriedDocument] = Intake(self._receive_datagrams, engine.post, turn)
        self._last_message: tuple[ClientChannel, int] | None = None  #: channel and delivery tag to acknowledge

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="uplink")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._end_link()
        if self._client is not None:
            await self._client.close(2.0)
        if self.datagrams is not None:
            self.datagrams.stop()

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Dial with this context from now on, if the link has TLS."""
        self._addresses.change(lambda config: config if config.tls is None else replace(config, tls=tls))

    def dial_config_for(self, virtual_host: str) -> DialConfig:
        """Return how to dial another virtual host of the peer."""
        return replace(
            self._addresses.current, virtual_host=virtual_host, limits=ConnectionLimits(heartbeat=HEARTBEAT_S)
        )

    @property
    def outage(self) -> LinkOutage:
        """The state of the link while it is down; times in milliseconds."""
        next_attempt = int(self._next_attempt.timestamp() * 1000) if self._next_attempt is not None else None
        return {
            "down_since": int(self._down_since.timestamp() * 1000),
            "next_attempt_at": next_attempt,
            "error": self.last_error,
        }

    @property
    def peer_info(self) -> PeerInfo | None:
        """The other end of the present session, if there is one."""
        return None if self.link is None or self._client is None else self._client.link.peer

    async def restart(self) -> None:
        """End the session and dial again."""
        if self._client is not None:
            await self._client.close(1.0)

    async def _run(self) -> None:
        failures = 0  # since the last session, at all addresses
        while True:
            is_lost = False
            try:
                await self._session()
                failures, is_lost = 0, True
            except (SemqError, OSError) as error:
                failures += 1
                # Only an operator can correct an untrusted certificate, so the text includes the remedy.
                self.last_error = error.advice() if isinstance(error, NotTrusted) else str(error)
                if self._peer_reason:
                    self.last_error += f"; the peer had ended the last session: {self._peer_reason}"
                log.warning("uplink_down", error=self.last_error, failures=failures)
            except Exception as error:  # a defect must not stop the dialling
                failures += 1
                self.last_error = repr(error)
                log.exception("uplink_failed")
            finally:
                self._end_link()
            # Pause after all addresses have failed, and after the loss of a session: many nodes may have lost theirs.
            self._addresses.advance()
            if is_lost or failures % len(self._addresses.configs) == 0:
                rounds, settings = failures // len(self._addresses.configs), self._settings
                pause_s = retry.backoff(
                    max(rounds, 1), settings.reconnect_s_min, settings.reconnect_s_max, self._clock.random()
                )
                self._next_attempt = self._clock.wall() + timedelta(seconds=pause_s)
                await asyncio.sleep(pause_s)
                self._next_attempt = None

    async def _session(self) -> None:
        config = replace(self._addresses.current, client_properties=self._properties())
        client = self._client = await dial(config, self._clock, self._turn)
        try:
            version = agree(client.machine.peer_properties.get(PROPERTY))
            data, control = await client.open_channel(), await client.open_channel()
            await data.confirm_select()
            await data.qos(self._settings.prefetch)
            data.on_settled = lambda settled: self._send_waiting()
            data.on_ready = self._send_waiting
            queue = f"node.{self._address}"
            await control.consume(f"{queue}.control", self._on_packets, no_ack=True)
            peer = self._peer(client)
            link = self.link = DialledLink(peer, version, data, control, self._settings.unconfirmed_max)
            if self.datagrams is not None:
                host = client.link.peer.host
                link.datagrams = self.datagrams.begin(peer, host, link.send, self._queue_datagram)
            self._engine.current.link_up(link)
            await data.consume(queue, lambda batch: self._on_messages(data, batch))
            log.info("uplink_up", peer=str(peer))
            self.last_error = self._peer_reason = ""
            ended: asyncio.Future[AmqpError | Exception | None] = asyncio.get_running_loop().create_future()

            def note_end(error: AmqpError | Exception | None) -> None:
                if not ended.done():
                    ended.set_result(error)

            data.on_closed = control.on_closed = note_end
            # A task: a slow peer must not delay the end of the session.
            listening = asyncio.ensure_future(self._answer_questions(client))
            try:
                error = await ended
            finally:
                listening.cancel()
                [fault] = await asyncio.gather(listening, return_exceptions=True)
                if isinstance(fault, Exception):
                    log.warning("questions_not_answered", error=str(fault))
            self.last_error = str(error or "closed")
            if isinstance(error, AmqpError) and not isinstance(error, Broken):
                self._peer_reason = error.text
            log.warning("uplink_lost", error=self.last_error)
        finally:
            self._end_link()
            await client.close(1.0)

    @property
    def is_revoked(self) -> bool:
        """Whether the hub has ended the link because the certificate of this node was revoked."""
        return Revoked.code in self._peer_reason

    def _properties(self) -> Mapping[str, object]:
        return self._identity() if self.datagrams is None else {**self._identity(), **self.datagrams.properties()}

    def _peer(self, client: ClientLink) -> Address:
        """Return the address of the peer. Raises WrongName.

        The dial has compared a partner's address with its certificate. The hub's address is in its certificate; without
        TLS, in its login properties.
        """
        if self._partner is not None:
            return self._partner
        stated = parse_address(str(client.machine.peer_properties.get("node", "platform")))
        claimed = Address(NodeType.PLATFORM, stated.id)  # an institution's certificate proves no hub
        if client.link.peer.certificate is None:
            return claimed
        proven = certificate_of(client.link.peer).node
        if proven != claimed:
            raise WrongName(
                "The login properties of the hub name another node than its certificate.",
                says=str(claimed),
                proven=str(proven),
            )
        return proven

    def _end_link(self) -> None:
        """End the session. Process its messages, and at most one turn's packets in the intake."""
        link = self.link
        if link is None:
            return
        try:
            self._process_messages()
            self.intake.pass_on_turn()
        except Exception:  # a defect must not stop the end of the session, nor replace the cancellation by ``stop``
            log.exception("uplink_failed")
        finally:
            self.link = None
            self.intake.forget()
            self.datagram_intake.forget()
            self._presence.clear()
            link.end()
            self._down_since = self._clock.wall()
            self._engine.current.link_down(link)

    def _send_waiting(self) -> None:
        if self.link is not None:
            self._engine.current.send_waiting(self.link)

    # --- frames from the peer
    def _on_messages(self, channel: ClientChannel, batch: list[Delivered]) -> None:
        self._received += [frame for delivered in batch if (frame := self._read_frame(delivered)) is not None]
        self._last_message = (channel, batch[-1].delivery_tag)
        # Unreadable frames are acknowledged, too; otherwise they would reduce the session's credit permanently.
        self._turn.before_flush(self._process_messages)

    def _on_packets(self, batch: list[Delivered]) -> None:
        """Queue packets by partner, and drop those beyond PARTNER_BYTES_MAX; packets of the peer itself are kept."""
        link = self.link
        for delivered in batch:
            source, size = _source_of(delivered), len(delivered.header.raw) + len(delivered.body)
            waiting = self.intake.waiting_bytes_of(source)
            if waiting > PARTNER_BYTES_MAX and link is not None and source != str(link.peer):
                self._note(source, IntakeOverflow(source=source, waiting=waiting, allowed=PARTNER_BYTES_MAX))
                continue
            self.intake.put(source, delivered, size, is_packet=True)
        if self.intake.waiting_bytes > PACKETS_BYTES_MAX and self._client is not None:
            self._client.link.pause_reading(WAITING)

    def _receive_packets(self, source: str, batch: list[Delivered]) -> None:
        frames = [frame for delivered in batch if (frame := self._read_frame(delivered)) is not None]
        for_engine = [
            frame for frame in frames if not self._handle_datagrams_packet(frame) and not self._queue_presence(frame)
        ]
        if len(self._presence) > PRESENCE_PARTS_MAX:
            self.intake.pause(source)
        if self.link is not None and for_engine:
            self._engine.current.receive(self.link, for_engine)
        if self.intake.waiting_bytes <= PACKETS_BYTES_MAX // 2 and self._client is not None:
            self._client.link.resume_reading(WAITING)

    def _handle_datagrams_packet(self, frame: Frame) -> bool:
        """Handle a packet about channels of datagrams; return False for other frames."""
        if not isinstance(frame, Packet) or frame.function is not Function.DATAGRAMS:
            return False
        if self.link is not None and self.link.datagrams is not None:
            self.link.datagrams.handle_packet(frame)
        return True

    def _queue_datagram(self, document: CarriedDocument) -> bool:
        if self.datagram_intake.waiting_bytes > DATAGRAM_BYTES_MAX:
            return False
        self.datagram_intake.put(None, document, len(document.header.raw) + len(document.body))
        return True

    def _receive_datagrams(self, _: None, batch: list[CarriedDocument]) -> None:
        frames: list[Frame] = []
        for document in batch:
            try:
                frames.append(read_datagram(*document))
            except SemqError as error:
                self._note("", error)
        if self.link is not None and frames:
            self._engine.current.receive(self.link, frames)

    def _queue_presence(self, frame: Frame) -> bool:
        """Queue a presence packet of the peer in parts; return False for other frames.

        Each turn processes one part, PRESENCE_PER_TURN records, because checking the signatures of certificates takes
        time.
        """
        if not isinstance(frame, Packet) or frame.function is not Function.PRESENCE:
            return False
        if self.link is None or frame.source.node != self.link.peer:
            return False
        for start in range(0, len(frame.records), PRESENCE_PER_TURN):
            part = replace_packet(frame, records=frame.records[start : start + PRESENCE_PER_TURN])
            if not self._presence:
                self._turn.in_next(self._process_presence)
            self._presence.append(part)
        return True

    def _process_presence(self) -> None:
        if not self._presence or self.link is None:
            return
        part = self._presence.popleft()
        if self._presence:
            self._turn.in_next(self._process_presence)
        else:
            self.intake.resume_all()
        self._engine.current.receive(self.link, [part])

    def _read_frame(self, delivered: Delivered) -> Frame | None:
        try:
            return read_frame(delivered.routing_key, delivered.header, delivered.body)
        except SemqError as error:
            self._note(_source_of(delivered), error)
            return None

    def _note(self, source: str, error: SemqError) -> None:
        """Record a refused frame in the ledger, under ``source``.

        If ``source`` is no address, the frame is recorded under the peer, or without a session under this node.
        """
        try:
            node = parse_address(source).node
        except SemqError:
            node = self.link.peer if self.link is not None else self._address
        self._engine.current.note_violation(node, error)

    def _process_messages(self) -> None:
        received, self._received = self._received, []
        last_message, self._last_message = self._last_message, None
        if self.link is None:
            return
        if received:
            self._engine.current.receive(self.link, received)
        if last_message is not None:
            # After the commit of the messages, so that the peer sends no faster than this node commits.
            self._engine.current.core.post(after_commit(partial(_acknowledge, *last_message)))


def _acknowledge(channel: ClientChannel, delivery_tag: int) -> None:
    if channel.is_open:
        channel.ack(delivery_tag, multiple=True)


def _source_of(delivered: Delivered) -> str:
    """Return the node that a frame names as its speaker; if the name is no address, its first 140 characters.

    Return an empty string if the header cannot be read.
    """
    try:
        name = (delivered.header.app_id or "")[:140]
    except SemqError:
        return ""
    try:
        return str(parse_address(name).node)
    except SemqError:
        return name
