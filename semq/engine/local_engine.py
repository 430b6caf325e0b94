"""The engine of a local node: sends an institution's documents, and records those of other nodes.

| the node calls     | when                                                                           |
|--------------------|--------------------------------------------------------------------------------|
| link_up, link_down | a session begins or ends                                                       |
| receive            | it has read frames from a session                                              |
| send_waiting       | a session has room again                                                       |
| submit             | applications have submitted documents                                          |
| note_users         | users come or go                                                               |
| introduce          | its certificates have changed                                                  |
| tick               | the time in ``next_due`` has come                                              |
| flush              | a turn ends in which ``on_mail`` was called                                    |
| take_over          | it has built this engine after a loss of the store; gets the previous engine   |
"""

from collections.abc import Callable, Iterable, Sequence

from semq.clock import Clock
from semq.engine.core import Core, apply_rare_changes, earliest
from semq.engine.direct import DirectSessions
from semq.engine.document_spans import DocumentSpans
from semq.engine.errors import NotYours
from semq.engine.frames import split_by_role
from semq.engine.partners import Partners
from semq.engine.people.acts import MessageActs
from semq.engine.ports import CertificateNews, Events, Inbox, Link, PacketProof, Secrecy, Submission, runs
from semq.engine.receiver.answers import ApplicationAnswers
from semq.engine.receiver.completion import Completions
from semq.engine.receiver.handover import Handover
from semq.engine.receiver.pieces import FindPieces
from semq.engine.receiver.reacks import ReAcks
from semq.engine.receiver.recording import Receiver
from semq.engine.secrecy.testimony import PlacedRecords, check_packet, records_of, split_records
from semq.engine.sender.receipts import Receipts
from semq.engine.sender.sender import Sender
from semq.engine.sender.submission import Acceptance
from semq.engine.settings import EngineSettings
from semq.engine.time.cleanup import Cleaner
from semq.engine.time.inquiry import OutboundAsker
from semq.engine.time.owed_acks import PendingAsker
from semq.engine.uplink import NodeSessions
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.seal.errors import CertificateUnvouched, SignerAwaited
from semq.store.rows import Certificates, Event, LedgerLine, RareChange, Side
from semq.store.unit import Recovered
from semq.store.work import WorkStore
from semq.umx_t.address import Address, NodeType, is_hub, parse_address
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.locator import Store
from semq.umx_t.records import InquiryRole, Presence


class LocalEngine:
    """The engine of one institution's node."""

    def __init__(
        self,
        own_store: Store,
        recovered: Recovered,
        store: WorkStore,
        clock: Clock,
        settings: EngineSettings,
        inbox: Inbox,
        events: Events,
        secrecy: Secrecy,
        on_mail: Callable[[bool], None],
        spans: DocumentSpans | None = None,
        partners: Partners | None = None,
        *,
        find_pieces: FindPieces,
    ) -> None:
        """``partners``: the configured partners of a node without a hub; None: the hub names the partners."""
        core = self.core = Core(own_store.node, own_store, recovered, store, clock, settings, events, on_mail, spans)
        self.uplink = NodeSessions(own_store.node)
        self.secrecy = secrecy
        self.users_present: frozenset[str] = frozenset()  #: users of this institution who receive documents now
        self._users_reported: list[str] = []  #: users reported to the hub in this session
        #: partners for which refused documents were searched since the last ``introduce`` (``_learn``)
        self._refusals_searched: set[str] = set()
        self.partners = partners or Partners()
        self.sender = Sender(core, recovered, secrecy, self.uplink, self._deliver_to_self)
        self.rows = self.sender.rows
        self.asker = OutboundAsker(core, self.sender)
        self.acceptance = Acceptance(core, self.rows, self.partners, secrecy, self.uplink)
        self.receipts = Receipts(self.sender)
        self.handover = Handover(core, inbox, recovered.finished)
        self.answers = ApplicationAnswers(core, self.handover)
        self.completions = Completions(core, self.answers)
        self.owed_acks = PendingAsker(core, self.handover, self.uplink)
        self.receiver = Receiver(core, secrecy, self.uplink, self.handover, self.owed_acks.recorded, find_pieces)
        self.reacks = ReAcks(core, self.uplink, self.handover)
        self.acts = MessageActs(core, self.rows, recovered.unsettled > 0)
        self._boot = recovered.boot
        self._on_start_seen: Callable[[str, Presence, int], None] = lambda peer, record, boot: None
        self.direct = DirectSessions(
            core, secrecy, self.note_violation, self._learn_directly, self._note_start_seen, self.uplink,
            has_hub=self.partners.has_hub,
        )  # fmt: skip
        self.cleaner = Cleaner(core, self.rows.to_clean, self.handover.to_clean)
        self._start(recovered)

    def _start(self, recovered: Recovered) -> None:
        now, last = self.core.now(), recovered.first_id - 1
        self.sender.rows.pump.recover(recovered.tracks)
        self.sender.recover(recovered)
        if recovered.pending:
            self.owed_acks.schedule.make_due(0, last, now)
        self.sender.rows.pump.run_all()
        self.handover.continue_orders(recovered.stopped_orders)

    def take_over(self, old: "LocalEngine") -> None:
        """Continue for the previous engine: keep its deliveries, users, partners, and a stop of submissions."""
        self.users_present = old.users_present
        self.handover.take_over(old.handover)
        self.acceptance.take_over(old.acceptance)
        self.partners.take_over(old.partners)

    # --- sessions
    def link_up(self, link: Link) -> None:
        """Begin a session: with the hub, instead of an earlier one, or directly with a partner."""
        if not is_hub(link.peer):
            self._direct_up(link)
            return
        self.uplink.begin(link)
        self.core.mail.schedule_flush()  # after it, the clockwork reads ``next_due``, which changes here
        self.partners.begin()
        self._users_reported = []
        self.introduce()
        self.sender.session_began()
        self.owed_acks.schedule.begin_again(
            self.core.now() + self.core.settings.reconnect_spread_s * self.core.clock.random()
        )
        self.rows.pump.run_all()

    def _direct_up(self, link: Link) -> None:
        self.uplink.begin_direct(link)
        self.direct.session_began(link, self.secrecy.introduction())
        self._resume_with(link.peer)

    def _resume_with(self, peer: Address) -> None:
        """Inquire about unanswered messages, and send the waiting ones for a partner."""
        self.core.mail.schedule_flush()
        self.sender.inquire_soon()
        self.owed_acks.schedule.begin_again(
            self.core.now() + self.core.settings.reconnect_spread_s * self.core.clock.random()
        )
        self.rows.pump.run(self.rows.pump.lane(str(peer)))

    def introduce(self) -> None:
        """Send this node's certificates to all peers, and its users to the hub."""
        certificates = self.secrecy.introduction()
        self._refusals_searched.clear()  # with a new key of this node, refused documents may be accepted
        if certificates or self._users_named():
            self._send_own(certificates or None)
        for partner in self.uplink.partners:
            self.direct.introduce(partner, certificates)

    def note_users(self, present: Iterable[str]) -> None:
        """Note the present users, and report those whom the definitions name."""
        self.users_present = frozenset(present)
        self._report_users()

    def _report_users(self) -> None:
        if self._users_named() != self._users_reported:
            self._send_own(None)

    def _users_named(self) -> list[str]:
        """Return the present users whom the definitions name."""
        group = self.partners.groups.get(str(self.core.address._replace(type=NodeType.USERS)))
        named = map(parse_address, group.members) if self.users_present and group is not None else ()
        return sorted(address.user for address in named if address.user in self.users_present)

    def _send_own(self, certificates: tuple[str, ...] | None) -> None:
        if (link := self.uplink.link) is not None:
            present = self._users_reported = self._users_named()
            record = Presence(
                node=str(self.core.address), online=True, certificates=certificates, present=tuple(present)
            )
            self.core.mail.add(link.peer, Function.PRESENCE, Primitive.INDICATION, record)

    def link_down(self, link: Link) -> None:
        """End a session. After a direct session, inquire about unanswered messages by another way, if there is one."""
        if self.uplink.end_direct(link):
            self.rows.pump.lane(str(link.peer)).flight.clear()
            if self.uplink.direct(link.peer) is not None:
                self.direct.introduce_again(link.peer, self.secrecy.introduction())
            self._resume_with(link.peer)
            return
        if self.uplink.link is not link:
            return
        self.uplink.end()
        for lane in self.rows.pump.lanes.values():
            lane.flight.clear()

    def send_waiting(self, link: Link | None = None) -> None:
        """Send waiting messages: to the partner of a direct ``link`` that has room again, otherwise to all targets."""
        if link is not None and not is_hub(link.peer):
            self.rows.pump.run(self.rows.pump.lane(str(link.peer)))
        else:
            self.rows.pump.run_all()

    def receive(self, link: Link, frames: Sequence[Frame]) -> None:
        if not is_hub(link.peer):
            frames = self.direct.permitted(link.peer, frames)
        for run in runs(frames):
            if isinstance(run, list):
                self.receiver.receive_messages(link.peer, run)
            else:
                self._receive_packet(link.peer, run)

    def _receive_packet(self, peer: Address, packet: Packet) -> None:
        source = packet.source.node
        try:
            check_packet(packet, peer, self.core.address)
            placed_records, faults = split_records(packet, peer, self.core.address)
            for ident, fault in faults:
                self._disbelieve(packet, NotYours(fault, peer=str(source)), ident)
            if not placed_records:
                return
            proof = None if source == peer and is_hub(peer) else self.secrecy.verify_packet(packet)
        except SignerAwaited as error:
            self.core.count("signer_awaited")
            if error.is_first:
                self._note(str(source), str(error))
        except SemqError as error:
            self._disbelieve(packet, error)
        else:
            self._process(source, packet, placed_records, proof)

    def _process(
        self, source: Address, packet: Packet, placed_records: PlacedRecords, proof: PacketProof | None
    ) -> None:
        records = records_of(placed_records)
        match packet.function, packet.primitive:
            case Function.RECEIPTS, Primitive.INDICATION:
                self.receipts.receive_receipts(source, placed_records, proof)
            case Function.RECEIPTS, Primitive.RESPONSE:
                self.reacks.receive_reacks(source, records)
            case Function.INQUIRIES, Primitive.REQUEST:
                role_r = [record for record in records if record.role is InquiryRole.R]
                other_roles = [record for record in records if record.role is not InquiryRole.R]
                if role_r:
                    self.receipts.receive_inquiries(source, role_r, proof)
                if other_roles:
                    self.reacks.receive_inquiries(source, other_roles)
            case Function.INQUIRIES, Primitive.CONFIRMATION:
                self.receipts.receive_answers(source, records, proof)
            case Function.PRESENCE, _:
                self.receive_presence(records)

    def receive_presence(self, records: Sequence[Presence]) -> None:
        about_self = [record for record in records if record.node == str(self.core.address)]
        if about_self:
            self._note_start_seen(about_self[0], self.uplink.hub)
            records = [record for record in records if record.node != str(self.core.address)]
        try:
            self.partners.learn(records)
        except SemqError as error:
            self.note_violation(link.peer if (link := self.uplink.link) is not None else self.core.address, error)
        rows: list[RareChange] = []
        for record in records:
            if record.node in self.partners.allowed and record.certificates is not None:
                rows += self._learn(record.node, record.certificates)
        if rows:
            self.core.post(apply_rare_changes(rows))
        if any(record.members is not None for record in records):
            self._report_users()
        self._note_news()

    def report_start_seen(self, callback: Callable[[str, Presence, int], None]) -> None:
        """Call ``callback`` when the hub or a partner has seen another process with this store: of the same or a later
        start, so that this store was restored, or of an earlier one, with the last document that it has seen. It gets
        who says so, the record, and the number of the present start."""
        self._on_start_seen = callback

    def _note_start_seen(self, record: Presence, peer: Address | None) -> None:
        if record.start_seen >= self._boot or record.last_seen:
            self._on_start_seen(str(peer), record, self._boot)

    def _learn(self, node: str, certificates: Sequence[str]) -> list[RareChange]:
        """Learn a partner's certificates; return the row to be stored, if there is one.

        At the first call for a node since ``introduce``, and when its key for sealing has changed, search for documents
        that the partner refused, to send them again."""
        stored = self.secrecy.known(node)
        if self.secrecy.learn(node, certificates) or node not in self._refusals_searched:
            self._refusals_searched.add(node)
            self.sender.resealing.search(node)
        known = self.secrecy.known(node)
        return [] if known is None or known == stored else [Certificates(node, known)]

    def _learn_directly(self, node: str, certificates: Sequence[str]) -> None:
        if rows := self._learn(node, certificates):
            self.core.post(apply_rare_changes(rows))
        self._note_news()

    def _note_news(self) -> None:
        for news in self.secrecy.news():
            self._note_certificate(news)

    def _note_certificate(self, news: CertificateNews) -> None:
        """Note a partner's new certificate; as a violation if it is neither the first nor signed by an older key."""
        if not (news.is_first or news.is_vouched):
            error = CertificateUnvouched(node=news.node, fingerprint=news.fingerprint, key_id=news.key_id)
            self.note_violation(parse_address(news.node), error)
            return
        what = "the first certificate" if news.is_first else "another certificate, signed by an earlier key,"
        self._note(news.node, f"{what} of {news.node}: SHA-256 {news.fingerprint}, key {news.key_id}")

    def _note(self, node: str, detail: str) -> None:
        line = LedgerLine(self.core.now_ms(), Side.SENDER, Event.OPERATOR, "", node, detail=shortened(detail, 500))
        self.core.note_lines([line])

    def _disbelieve(self, packet: Packet, error: SemqError, ident: str = "") -> None:
        self.core.count("disbelieved")
        self.note_violation(packet.source.node, error, ident)

    def note_violation(self, source: Address, error: SemqError, ident: str = "") -> None:
        """Note a violation in the ledger, within the bound of ``violations``. ``ident``: LK0 of the message, if any."""
        line = LedgerLine(
            self.core.now_ms(),
            Side.SENDER,
            Event.VIOLATION,
            ident[:200],
            str(source),
            detail=shortened(str(error), 500),
        )
        lines: list[LedgerLine] = []
        self.core.count_violation(lines, str(source), line, error)
        self.core.note_lines(lines)

    def _deliver_to_self(self, frames: list[Data]) -> None:
        self.receiver.receive_messages(self.core.address, frames)

    # --- time and turns
    def tick(self) -> None:
        self.core.write_violation_counts(Side.SENDER)
        self.asker.sweep.tick()
        self.owed_acks.sweep.tick()
        self.cleaner.tick()
        self.acts.tick()

    @property
    def next_due(self) -> float | None:
        """When ``tick`` is due, in monotonic seconds; None if nothing is planned."""
        dues = (
            self.asker.sweep.next_due,
            self.owed_acks.sweep.next_due,
            self.cleaner.next_due,
            self.acts.next_due,
            self.core.violations.next_due,
        )
        return earliest(dues)

    def flush(self) -> None:
        for packet in self.core.mail.flush():
            if packet.target.node == self.core.address:
                self._receive_packet(self.core.address, packet)
            elif (link := self.uplink.link_for(packet.target.node)) is not None:
                self._send(link, packet)

    def _send(self, link: Link, packet: Packet) -> None:
        if packet.function is Function.PRESENCE or (packet.target.node == link.peer and is_hub(link.peer)):
            if packet.target.node == link.peer:  # else the direct session of this introduction has ended
                link.send(packet)
            return
        for part in split_by_role(packet):
            link.send(self.secrecy.sign(part))

    # --- applications
    def submit(self, submissions: Sequence[Submission]) -> None:
        first = min((s.attributes.expires_at for s in submissions if s.attributes.expires_at), default=None)
        if first is not None:
            self.acts.watch_expiry(first)
        self.acceptance.submit(submissions)
