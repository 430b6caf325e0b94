"""The engine of the hub: forwards or stores each message, and writes no row for a forwarded message.

Methods are called at the same moments as those of ``local_engine``.
"""

from collections.abc import Callable, Iterable, Sequence

from semq.clock import Clock
from semq.engine.core import Core, apply_rare_changes, earliest
from semq.engine.document_spans import DocumentSpans
from semq.engine.errors import IntroducedTooOften, NotYours
from semq.engine.hub.carried_link import CarriedLink
from semq.engine.hub.copies import Copies
from semq.engine.hub.copy_acts import CopyActs
from semq.engine.hub.custody import Custody
from semq.engine.hub.forwarding import Relay
from semq.engine.hub.instances import Cluster, Instances
from semq.engine.hub.sessions import PresentNode, UserReports
from semq.engine.hub.speakers import check_records, record_name
from semq.engine.ports import Directory, Link, NoEvents, runs
from semq.engine.settings import EngineSettings
from semq.errors import SemqError
from semq.store.rows import Certificates, Side
from semq.store.unit import Recovered
from semq.store.work import WorkStore
from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.locator import Store
from semq.umx_t.records import AckFlag, InquiryRole, Presence


class HubEngine:
    """The engine of a hub, or of one instance of a hub."""

    def __init__(
        self,
        own_store: Store,
        recovered: Recovered,
        store: WorkStore,
        clock: Clock,
        settings: EngineSettings,
        directory: Directory,
        on_mail: Callable[[bool], None],
        cluster: Cluster | None = None,
        spans: DocumentSpans | None = None,
    ) -> None:
        core = self.core = Core(
            own_store.node, own_store, recovered, store, clock, settings, NoEvents(), on_mail, spans
        )
        self.directory = directory
        self.sessions: dict[str, PresentNode] = {}
        self.custody = Custody(core, recovered, self.sessions, directory)
        self.copies = Copies(self.custody)
        self.copy_acts = CopyActs(self.custody)
        self.relay = Relay(core, self.sessions, self.custody, directory)
        self.user_reports = UserReports(core, self.sessions, self._pass_users_on)
        self.instances = Instances(self, self.custody.stores.own_store, cluster) if cluster is not None else None

    # --- sessions
    def link_up(self, link: Link) -> None:
        """Begin a session of a node; end an earlier one."""
        node = str(link.peer)
        old = self.sessions.get(node)
        if old is not None:
            self.link_down(old.link)
        session = self.sessions[node] = PresentNode(link, not isinstance(link, CarriedLink))
        self.core.mail.schedule_flush()  # this hub then reads ``next_due`` again, which may be earlier now
        if session.is_here:
            self._send_directory(session)
        self._send_presence(link.peer, online=True)
        self.flush()  # certificates first: the packets that are passed on next may be signed with a new one
        self.custody.note_online(node)
        if session.is_here and self.instances is not None:
            self.instances.fronts.came(link)

    def link_down(self, link: Link) -> None:
        """End a session, and report unanswered forwards to the senders (H15)."""
        node = str(link.peer)
        session = self.sessions.get(node)
        if session is None or session.link is not link:
            return
        del self.sessions[node]
        self.custody.note_offline(node)
        self.relay.report(session)
        self._send_presence(link.peer, online=False)
        if session.is_here and self.instances is not None:
            self.instances.went(link)

    def send_waiting(self, link: Link) -> None:
        if self.instances is not None:
            self.instances.note_room(link)
        self.custody.run(str(link.peer))

    def waiting(self) -> Iterable[str]:
        """Return the nodes with waiting copies in this store."""
        return self.custody.rows_by_target

    def _send_directory(self, session: PresentNode) -> None:
        link = session.link
        session.partners = self.directory.partners(link.peer)
        for node in session.partners:
            if node != link.peer:
                record = self._presence(link.peer, node, online=str(node) in self.sessions)
                self.core.mail.add(link.peer, Function.PRESENCE, Primitive.INDICATION, record)
        session.groups = self.directory.groups(link.peer)
        for record in session.groups:
            self.core.mail.add(link.peer, Function.PRESENCE, Primitive.INDICATION, record)
        # The last record completes the list; packets keep the order of records.
        self.core.mail.add(link.peer, Function.PRESENCE, Primitive.INDICATION, Presence(node="", complete=True))

    def _send_presence(self, node: Address, *, online: bool) -> None:
        for peer in self.directory.partners(node):
            session = self.sessions.get(str(peer))
            if peer != node and session is not None and session.is_here:
                record = self._presence(peer, node, online=online)
                self.core.mail.add(peer, Function.PRESENCE, Primitive.INDICATION, record)

    def _presence(self, peer: Address, node: Address, *, online: bool) -> Presence:
        certificates, session = self.directory.certificates(node), self.sessions.get(str(node))
        # A partner that logs in gets the report that was passed on last.
        present = () if session is None else session.users_passed
        return Presence(
            node=str(node),
            online=online,
            allowed=self.directory.may_send(peer, node),
            terms=self.directory.terms(peer, node),
            certificates=certificates,
            present=tuple(sorted(present & set(self.directory.users(node)))) if present else None,
        )

    def send_changed_directory(self) -> None:
        """Send the changed directory to nodes with a session here; ``allowed=False`` for former partners and groups."""
        for session in [session for session in self.sessions.values() if session.is_here]:
            before, groups = set(session.partners), {group.node for group in session.groups}
            self._send_directory(session)
            for node in sorted(before.difference(session.partners)):
                record = Presence(node=str(node), allowed=False, terms=())
                self.core.mail.add(session.link.peer, Function.PRESENCE, Primitive.INDICATION, record)
            for name in sorted(groups.difference(group.node for group in session.groups)):
                record = Presence(node=name, allowed=False, members=())
                self.core.mail.add(session.link.peer, Function.PRESENCE, Primitive.INDICATION, record)

    # --- received frames
    def receive(self, link: Link, frames: Sequence[Frame]) -> None:
        """Process the frames read from a session, in order; ignore them if the session has ended."""
        session = self.sessions.get(str(link.peer))
        if session is None or session.link is not link:
            return
        for run in runs(frames):
            if isinstance(run, list):
                here = run if self.instances is None else self.instances.route(link.peer, run)
                self.relay.receive_messages(link.peer, here)
            else:
                self._receive_packet(session, run)

    def _receive_packet(self, session: PresentNode, packet: Packet) -> None:
        peer = session.link.peer
        if packet.source.node != peer:
            self.relay.note_violation(NotYours(source=str(packet.source), peer=str(peer)), str(peer))
            return
        permitted, wrong = check_records(packet, peer, self.core.address)
        for record, fault in wrong:
            self.relay.note_violation(
                NotYours(f"A node makes a statement to which it has no right: {fault}.", peer=str(peer)),
                str(peer),
                ident=record_name(record),
            )
        if wrong:
            if not permitted:
                return
            packet = Packet(packet.source, packet.target, packet.function, packet.primitive, permitted)
        if packet.target.node != self.core.address:
            self._pass_on(session, packet)
        elif packet.function is Function.PRESENCE:
            self._receive_introduction(session, packet.records)
        elif self.instances is None:
            self._receive_about_copies(peer, packet)
        elif (here := self.instances.split(peer, packet)) is not None:
            self._receive_about_copies(peer, here)

    def receive_checked_packet(self, speaker: Address, packet: Packet) -> None:
        """Process a packet that another instance has checked: about copies in this store, or about messages for a node
        with this store as home."""
        if packet.target.node == self.core.address:
            self._receive_about_copies(speaker, packet)
        elif packet.function is Function.INQUIRIES and packet.primitive is Primitive.REQUEST:
            self.copies.receive_inquiries(speaker, packet.target.node, packet.records)

    def _receive_about_copies(self, peer: Address, packet: Packet) -> None:
        match packet.function, packet.primitive:
            case Function.RECEIPTS, Primitive.INDICATION:
                self.copies.receive_acks(peer, [r for r in packet.records if r.ack_flag is AckFlag.TRANSPORT])
            case Function.RECEIPTS, Primitive.RESPONSE:
                self.copies.receive_noted_refusals(peer, packet.records)
            case Function.INQUIRIES, Primitive.REQUEST:
                self.copies.receive_role_r(peer, [r for r in packet.records if r.role is InquiryRole.R])
                self.copies.receive_custody_inquiries(peer, [r for r in packet.records if r.role is InquiryRole.S])
            case Function.INQUIRIES, Primitive.CONFIRMATION:
                self.copies.receive_answers(peer, packet.records)
            case _:
                self.core.count("unknown_packet")

    def _receive_introduction(self, session: PresentNode, records: Sequence[Presence]) -> None:
        peer = session.link.peer
        for record in records:
            if record.node != str(peer) or (record.certificates is None and record.present is None):
                continue
            if record.present is not None:
                self.user_reports.note(peer, record.present)
            if record.certificates is None:
                continue
            if not session.admit_introduction(self.core.now()):
                self.relay.note_violation(IntroducedTooOften(peer=str(peer)), str(peer))
                continue
            try:
                self.keep_certificates(peer, record.certificates)
            except SemqError as error:
                self.relay.note_violation(error, str(peer))

    def _pass_users_on(self, session: PresentNode) -> None:
        """Report present users to the partners, if users named by the definitions have come or gone."""
        node = session.link.peer
        named, before = set(self.directory.users(node)), session.users_passed
        session.users_passed = session.users_present
        if before & named == session.users_passed & named:
            return
        self._send_presence(node, online=True)
        if session.is_here and self.instances is not None:
            self.instances.fronts.changed(node)

    def keep_certificates(self, node: Address, certificates: Sequence[str]) -> None:
        """Keep the certificates of a node and send them to the partners. Raises SemqError if they are refused."""
        known = self.directory.introduce(node, certificates)
        if known is not None:
            self.core.post(apply_rare_changes([Certificates(str(node), known)]))
            self.send_certificates(node)
            if self.instances is not None:
                self.instances.fronts.changed(node)
            self.flush()  # before packets signed with a new key

    def send_certificates(self, node: Address) -> None:
        self._send_presence(node, online=str(node) in self.sessions)

    def _pass_on(self, session: PresentNode, packet: Packet) -> None:
        """H8 and H14: pass on a packet between nodes; answer inquiries about stored copies (H7)."""
        if packet.function is Function.INQUIRIES and packet.primitive is Primitive.REQUEST:
            role_s = [record for record in packet.records if record.role is InquiryRole.S]
            if role_s and (self.instances is None or not self.instances.ask_home(packet, role_s)):
                self.copies.receive_inquiries(session.link.peer, packet.target.node, role_s)
            other_roles = [record for record in packet.records if record.role is not InquiryRole.S]
            if other_roles and not role_s:
                self.relay.pass_on(packet)  # unchanged, with its signature
            elif other_roles:
                self.relay.pass_on(Packet(packet.source, packet.target, packet.function, packet.primitive, other_roles))
            return
        if packet.function is Function.RECEIPTS and packet.primitive is Primitive.INDICATION:
            # All records are Ack2: ``check_records`` refuses others.
            idents = [record.ident for record in packet.records]
            self.relay.acknowledged(session, idents)
            if self.instances is not None:
                self.instances.acknowledged(session.link.peer, idents)
        self.relay.pass_on(packet)

    def note_violation(self, source: Address, error: SemqError) -> None:
        """Note a violation by ``source`` in the ledger, such as an unreadable frame or too many logins."""
        self.relay.note_violation(error, str(source))

    # --- time and turns
    def tick(self) -> None:
        self.core.write_violation_counts(Side.HUB)
        self.relay.notes.tick()
        self.custody.sweep.tick()
        self.user_reports.tick()
        if self.instances is not None:
            self.instances.fronts.tick()

    @property
    def next_due(self) -> float | None:
        """When ``tick`` is due, in monotonic seconds; None if nothing is planned."""
        fronts_due = self.instances.fronts.next_due if self.instances is not None else None
        dues = (
            self.relay.notes.next_due,
            self.custody.sweep.next_due,
            self.core.violations.next_due,
            self.user_reports.next_due,
            fronts_due,
        )
        return earliest(dues)

    def flush(self) -> None:
        """Post the collected ledger lines, and send the collected records."""
        self.relay.flush()
        for packet in self.core.mail.flush():
            self.relay.pass_on(packet)
        if self.instances is not None:
            self.instances.flush()
