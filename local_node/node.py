"""An institution's node as a process."""

import asyncio
import shutil
import ssl
from collections.abc import Iterable, Mapping
from functools import partial

import structlog
from msgspec.structs import replace
from msgspec.structs import replace as replace_fields

from local_node.doors.events import EventExchange, declare_events
from local_node.doors.inbox import Inboxes, QueuesWithInboxes
from local_node.doors.schedule import POLL_S as SCHEDULE_POLL_S
from local_node.doors.schedule import ScheduledDocuments
from local_node.doors.sql_submissions import SqlSubmissions
from local_node.doors.submission import Sizes, SubmitExchange
from local_node.doors.user_presence import UserPresence
from local_node.enrolment import HubAddress
from local_node.link.answers import Answers
from local_node.link.direct import DirectLinks, PartnerLogins, is_withdrawn, partner_address
from local_node.link.hub_addresses import DialAddresses, hub_dial_configs
from local_node.link.partner_questions import PartnerQuestions
from local_node.link.single_request import VIRTUAL_HOST
from local_node.link.uplink import Uplink, UplinkSettings, link_limits
from local_node.operations.missing import EVERY_S, JOB, MissingDocuments
from local_node.operations.table import OPERATIONS
from local_node.pieces.assembly import Assembly
from local_node.pieces.remains import SWEEP_S, Remains
from local_node.pieces.transfer import EventsWithPieces, Transfers
from local_node.pieces.upload import Uploads
from local_node.renewal import CHECK_S, Renewing
from semq.answers.messages import LinkOutage
from semq.answers.status import CertificateStatus, HubLink, NodeStatus, PartnerStatus
from semq.broker.users import Authenticator
from semq.broker.vhost import VirtualHost
from semq.config.sections import DialledSection
from semq.config.settings import Settings
from semq.engine.latency import Histogram, Stage
from semq.engine.local_engine import LocalEngine
from semq.engine.partners import Partners
from semq.engine.people.stuck import Surroundings
from semq.engine.ports import InClear
from semq.engine.secrecy.sealing import Sealing
from semq.engine.time.schedule import Schedule
from semq.errors import SemqError
from semq.pki.certificate import NodeCertificate
from semq.pki.errors import NoIdentity
from semq.service.clockwork import ScheduledJob
from semq.service.credentials.identity import NodeIdentity, ring_of
from semq.service.credentials.secrecy import sealing_of
from semq.service.datagrams.ends import DiallingEnd, OfferingEnd, status_of
from semq.service.links.rights import UMX
from semq.service.links.sessions import Links
from semq.service.node import APPLICATIONS, Node
from semq.store.unit import Recovered
from semq.store.views import submissions
from semq.store.views.messages import certificates, waiting_for
from semq.umx_t.address import Address, parse_address
from semq.umx_t.agreement import agreed_text
from semq.umx_t.records import Presence

log = structlog.get_logger("semq.local")
AGREED_SHOWN = 5  # agreements with one partner that node.status shows
DISK_CHECK_S = 10.0
# Polls find rows without a NOTIFY: written without the SQL functions, or while the store had no connection.
SQL_POLL_S = 10.0
NOTIFIED_RUNS, NOTIFIED_PAUSE_S = 10, 0.1  # further polls after a NOTIFY
SQL_AGAIN_S = 1.0  # pause before the next poll while rows wait, for instance because of a rate or a quota


class LocalNode(Node[LocalEngine]):
    """A local node."""

    table = OPERATIONS
    companion_sections = ("folders", "webhooks", "http")
    node_identity: NodeIdentity | None = None  #: None if the node uses no certificates
    renewing: Renewing | None = None  #: None without a hub, or if the link to the hub has no TLS
    sealing: Sealing | None = None  #: None without certificates
    offering: OfferingEnd | None = None  #: for datagrams of partners that dial; None without [direct] or [datagrams]
    direct: DirectLinks | None = None  #: None without [direct]
    _notified_runs: dict[str, int]  #: remaining runs after a NOTIFY, by job
    _introduced: tuple[str, ...] = ()  #: the last introduction sent

    async def prepare(self) -> None:
        hub = self.settings.hub
        if self.settings.direct:
            self.vhosts = (APPLICATIONS, UMX, VIRTUAL_HOST)
        if self.settings.amqp.tls or self.settings.direct or (hub is not None and hub.is_tls):
            self.node_identity = NodeIdentity(self.settings, self.clock)
        elif hub is not None and hub.allow_plain:
            log.warning("link_without_tls", hub=hub.url, text="everyone on the network path can read the messages")

        if self.node_identity is None and ring_of(self.settings).is_enrolled:
            # The link has no TLS; documents can still be sealed.
            self.node_identity = NodeIdentity(self.settings, self.clock)
        if self.node_identity is not None:
            partner_certificates = await self.store.execute(certificates)
            self.sealing = sealing_of(self.node_identity, self.address, self.settings, self.clock, partner_certificates)

    def tls(self) -> ssl.SSLContext | None:
        return self.node_identity.server_tls() if self.node_identity is not None and self.settings.amqp.tls else None

    def build_engine(self, recovered: Recovered) -> LocalEngine:
        if self.engine_starts == 1:
            self.assembly = Assembly(lambda: self.engine, lambda: self.store)
            presence = UserPresence(lambda: self.engine)
            self.inboxes = presence.inboxes = Inboxes(
                lambda: self.engine, self.turn, self._waiting_for, self.assembly, presence.note_change
            )
            self._cleanup.callback(presence.stop)
            self.uploads = Uploads(lambda: self.engine, lambda: self.transfers.search())
            self.transfers = Transfers(lambda: self.engine, lambda: self.store, lambda: self.submissions.poll())
            self.remains = Remains(
                lambda: self.engine, lambda: self.store, lambda: self.uploads.document_numbers, self.clock_check
            )
            self.events = EventsWithPieces(
                EventExchange(self._vhost), self.transfers.note_event, self.remains.note_failed
            )
            self.submissions = SqlSubmissions(lambda: self.engine, self._poll_again)
            schedule_poll_s = SCHEDULE_POLL_S * self.host.poll_factor
            self.schedule = ScheduledDocuments(
                lambda: self.engine, self._release_again, self.submissions.poll_then, schedule_poll_s
            )
        engine = LocalEngine(
            self.own_store, recovered, self.store, self.clock, self.engine_settings(), self.inboxes, self.events,
            self.sealing or InClear(), self.clockwork.on_mail, self.spans, self._configured_partners(),
            find_pieces=self.assembly.find_pieces,
        )  # fmt: skip
        engine.acceptance.report_scheduled(self.schedule.note_scheduled)
        engine.report_start_seen(self._note_start_seen)
        if self.engine_starts > 1:
            engine.take_over(self.engine)
            self.transfers.halt()  # its tasks use the present engine, and begin again with the sessions
        return engine

    def _note_start_seen(self, peer: str, record: Presence, present: int) -> None:
        if (seen := record.start_seen) >= present:
            found = f"{peer} has seen start {seen} of this store, and this is start {present}"
            self.store.note_missing_commits(f"{found}, so it was restored from a backup")
        else:
            self.missing.seen[peer] = record
        self.clockwork.hasten(JOB)

    async def _waiting_for(self, user: str, at_most: int) -> int:
        return await self.store.execute(waiting_for, user, at_most)

    def _configured_partners(self) -> Partners | None:
        """Return the partners of a node without a hub; None if the hub names them."""
        if not self.settings.has_no_hub:
            return None
        return Partners.configured(str(partner_address(node_id)) for node_id in self.settings.direct)

    def authenticator(self) -> Authenticator:
        if not self.settings.direct:
            return self.users
        self.logins = PartnerLogins(self.users, self.settings.direct, self._is_withdrawn)
        return self.logins

    def _is_withdrawn(self, certificate: NodeCertificate) -> bool:
        """Return whether the hub has withdrawn a partner's certificate, as far as this node knows."""
        if self.settings.has_no_hub or self.sealing is None:
            return False
        return is_withdrawn(certificate, self.sealing.known(str(certificate.node)))

    def apply_settings(self, before: Settings) -> None:
        self.engine.core.reconfigure(self.engine_settings())
        partners = self.settings.direct
        if self.direct is not None and partners != before.direct:
            self.logins.replace(partners)
            self.direct.change(partners)
            if self.settings.has_no_hub:
                self.engine.partners.replace(str(partner_address(node_id)) for node_id in partners)

    def _vhost(self) -> VirtualHost:
        return self.server.vhosts[APPLICATIONS]

    def register(self) -> None:
        vhost = self._vhost()
        vhost.register(SubmitExchange(vhost, lambda: self.engine, self.turn, self._sizes(), self.uploads))
        vhost.queues = QueuesWithInboxes(vhost.queues, self.inboxes)
        declare_events(vhost)
        answers, self.missing = Answers(self), MissingDocuments(self)
        self.uplink = Uplink(
            self.address, self._hub_addresses(), self._uplink_settings(self.settings.hub), lambda: self.engine,
            self.identity, self.clock, self.turn, answers.listen, self._dialling_end(),
        )  # fmt: skip
        if self.settings.direct:
            if self.settings.datagrams is not None:
                self.offering = OfferingEnd(self.settings.datagrams, self.address, self.clock)
                self._cleanup.callback(self.offering.stop)
            credit_bytes = self.settings.protocol.credit_bytes
            links = Links(lambda: self.engine, self.turn, credit_bytes, datagrams=self.offering)
            self.direct = DirectLinks(
                self.settings.direct, links, self._partner_link, self._is_withdrawn, self.logins.refusals
            )
            self.direct.open(self.server.vhosts[UMX], self.link_bytes_max)
            questions_vhost = self.server.vhosts[VIRTUAL_HOST]
            questions_vhost.register(PartnerQuestions(answers).exchange(questions_vhost))
        if self.node_identity is not None and self.settings.hub is not None and self.settings.hub.is_tls:
            self.renewing = Renewing(self.node_identity, self._hub_address, self.clock, self.uplink.restart)

    def _partner_link(self, partner: Address, addresses: DialAddresses) -> Uplink:
        settings = self._uplink_settings(self.settings.direct[partner.id])
        return Uplink(
            self.address, addresses, settings, lambda: self.engine, self.identity, self.clock, self.turn,
            datagrams=self._dialling_end(), partner=partner,
        )  # fmt: skip

    def _dialling_end(self) -> DiallingEnd | None:
        """Return the datagram end of a link that this node dials; None without section ``datagrams``.

        With direct links the listening end (``offering``) has the configured port.
        """
        section = self.settings.datagrams
        if section is None:
            return None
        own = section.model_copy(update={"port": None}) if self.settings.direct else section
        return DiallingEnd(own, self.address, self.clock)

    def _sizes(self) -> Sizes:
        protocol, message_max = self.settings.protocol, self.settings.amqp.max_message_bytes
        if protocol.pieces_from_bytes > protocol.max_document_bytes:  # no document is sent in pieces
            return Sizes(message_max, message_max, message_max)
        return Sizes(
            protocol.max_document_bytes, protocol.pieces_from_bytes, max(protocol.max_large_document_bytes, message_max)
        )

    def _hub_addresses(self) -> DialAddresses:
        hub = self.settings.hub
        if hub is None:
            return DialAddresses([])
        tls = self.node_identity.client_tls() if self.node_identity is not None and hub.is_tls else None
        limits = link_limits(self.link_bytes_max)
        configs = hub_dial_configs(hub, self.address, tls, UMX)
        return DialAddresses([replace(config, limits=limits) for config in configs])

    def _hub_address(self) -> HubAddress:
        config = self.uplink.dial_config_for(UMX)
        return HubAddress(config.host, config.port, self.settings.tls.minimum)

    def _uplink_settings(self, dialled: DialledSection | None) -> UplinkSettings:
        protocol, pauses = self.settings.protocol, dialled or DialledSection()
        return UplinkSettings(pauses.reconnect_s_min, pauses.reconnect_s_max, protocol.flight, protocol.credit_messages)

    async def begin_sessions(self) -> None:
        if self.offering is not None and not self.offering.port.is_open:
            await self.offering.start(self.settings.amqp.host)
        if self.engine_starts == 1:
            self.dial()
        else:
            await self.uplink.restart()
            if self.direct is not None:
                await self.direct.restart()
        self.engine.completions.poll()  # before documents are delivered again
        for queue in self.inboxes.queues.values():
            queue.begin()
        self.submissions.poll()
        self.schedule.release_due()
        self.transfers.begin()

    def dial(self) -> None:
        self.uplink.start()
        if self.direct is not None and self.node_identity is not None:
            self.direct.dial(self.address, self.node_identity.client_tls(), self.link_bytes_max)

    async def end_sessions(self) -> None:
        self.engine.acceptance.stop()
        self.engine.flush()  # records that would have waited for later ones
        await self.transfers.stop()
        await self.remains.stop()
        if self.direct is not None:
            await self.direct.stop()
        await self.uplink.stop()

    def notified(self, channel: str) -> None:
        if channel == "semq_submit":
            self.schedule.release_due()
            self._follow_notify("sql_submissions")
        elif channel == "semq_done":
            self._follow_notify("sql_done")

    def _follow_notify(self, job: str) -> None:
        """Run a job now and some times soon: of transactions that commit at the same time, only one notifies."""
        self._notified_runs[job] = NOTIFIED_RUNS
        self.clockwork.hasten(job)

    def _run_after_notify(self, job: str) -> None:
        reader = self.submissions if job == "sql_submissions" else self.engine.completions
        reader.poll()
        if self._notified_runs[job]:
            self._notified_runs[job] -= 1
            self.clockwork.hasten(job, NOTIFIED_PAUSE_S)

    def _poll_again(self) -> None:
        self.clockwork.hasten("sql_submissions", SQL_AGAIN_S)

    def _release_again(self, in_s: float) -> None:
        self.clockwork.hasten("schedule", in_s)

    def jobs(self) -> list[ScheduledJob]:
        factor, self._notified_runs = self.host.poll_factor, {"sql_submissions": 0, "sql_done": 0}
        sql_poll_s = SQL_AGAIN_S if factor == 1.0 else SQL_POLL_S * factor  # a poll ends the rest of a store
        jobs = [
            ScheduledJob("sql_submissions", sql_poll_s, partial(self._run_after_notify, "sql_submissions")),
            ScheduledJob("schedule", SCHEDULE_POLL_S * factor, lambda: self.schedule.release_due()),
            ScheduledJob("pieces", SQL_POLL_S * factor, lambda: self.transfers.search()),
            ScheduledJob("remains", SWEEP_S * factor, lambda: self.remains.sweep()),
            ScheduledJob(JOB, EVERY_S * factor, lambda: self.missing.ask()),
            ScheduledJob("sql_done", sql_poll_s, partial(self._run_after_notify, "sql_done")),
        ]
        if self.settings.database.url is None:
            jobs.append(ScheduledJob("disk", DISK_CHECK_S, self.check_disk))
        if self.node_identity is not None:
            jobs.append(ScheduledJob("certificate", CHECK_S, self._maintain_certificate))
        return jobs

    def check_disk(self) -> None:
        """Block publishers while the disk of the embedded database is nearly full: a full disk would stop Postgres."""
        free = shutil.disk_usage(self.settings.data_dir).free
        self.server.block_publishers("low on disk" if free < self.settings.amqp.min_free_disk_bytes else None)

    async def _maintain_certificate(self) -> None:
        if self.direct is not None:
            await self.direct.check(self.clock.wall())  # first, because the next steps fail without the key ring
        await self._adopt_certificate()
        if self.renewing is not None:
            await self.renewing.renew_if_due()
        elif self.node_identity is not None:
            self.node_identity.maintain()
        if self.sealing is not None and self.sealing.introduction() != self._introduced:
            self._introduced = self.sealing.introduction()
            self.engine.introduce()

    async def _adopt_certificate(self) -> None:
        """Use a certificate that ``semq node enroll`` has installed since the last check."""
        if self.node_identity is None or not self.node_identity.is_outdated():
            return
        try:
            self.node_identity.adopt()
        except SemqError as error:
            log.error("certificate_not_adopted", error=error.advice())
            return
        await self.apply_authorities_and_end_sessions()

    async def apply_authorities_and_end_sessions(self) -> None:
        self.apply_authorities()
        await self.uplink.restart()
        if self.direct is not None:
            await self.direct.restart()

    def apply_authorities(self) -> None:
        """Apply the present authorities to new connections and to partners' certificates."""
        if self.node_identity is not None:
            if self.settings.amqp.tls:
                self.server.listener.use_tls(self.node_identity.server_tls())
            if self.settings.hub is not None and self.settings.hub.is_tls:
                self.uplink.use_tls(self.node_identity.client_tls())
            if self.direct is not None:
                self.direct.use_tls(self.node_identity.client_tls())
        if self.sealing is not None:
            self.sealing.check_all()

    def made_parts(self) -> Iterable[object]:
        return (self.missing,)

    def identity_in_use(self) -> NodeIdentity:
        if self.node_identity is None:
            raise NoIdentity("The node uses no certificates (hub.url is amqp://).")
        return self.node_identity

    def certificate_status(self) -> CertificateStatus:
        """Return the state of the own certificate; a hub may have revoked it. Raises NoIdentity."""
        status = self.identity_in_use().status()
        return replace_fields(status, state="revoked") if self.uplink.is_revoked else status

    def schedule_of(self, side: str) -> Schedule:
        """Return the engine's schedule of inquiries about rows of a side, ``outbound`` or ``inbound``."""
        return self.engine.owed_acks.schedule if side == "inbound" else self.engine.asker.schedule

    def engine_time(self) -> float:
        return self.engine.core.now()

    async def status(self) -> NodeStatus:
        uplinks = self.direct.uplinks.values() if self.direct is not None else ()
        dialled = (uplink.datagrams for uplink in (self.uplink, *uplinks))
        ends = [end for end in (self.offering, *dialled) if end is not None]
        sent, waiting = self.engine.uplink.sent_directly, self.submissions.waiting
        return replace_fields(
            await super().status(),
            hub=None if self.settings.has_no_hub else self._hub_link(),
            datagrams=status_of(ends) if self.uplink.datagrams is not None else None,
            direct=self.direct.status(sent) if self.direct is not None else {},
            missing=self.missing.survey.status() if self.missing.survey is not None else None,
            drained=self.engine.acceptance.stopping,
            certificate=self.certificate_status() if self.node_identity is not None else None,
            sql_waiting={target: str(error) for target, error in waiting.items()},
            sql_submissions=await self.store.execute(submissions.counts),
            partners=self._partners(),
        )

    def _hub_link(self) -> HubLink:
        link, error = self.uplink.link, self.uplink.last_error
        return HubLink(link="up", node=str(link.peer), last_error=error) if link else HubLink(last_error=error)

    def _partners(self) -> dict[str, PartnerStatus]:
        waiting, quota = self.engine.rows.unsettled, self.settings.protocol.quota_rows_per_partner
        direct, partners = set(map(str, self.engine.uplink.partners)), self.engine.partners
        # Without a link to the hub it is unknown who is online.
        is_told = self.settings.has_no_hub or self.uplink.link is not None
        return {
            node: PartnerStatus(
                online=node in direct or (partners.online.get(node, False) if is_told else None),
                allowed=allowed,
                waiting=waiting.get(node, 0),
                quota_reached=waiting.get(node, 0) >= quota,
                agreed=[agreed_text(terms) for terms in partners.terms.get(node, ())[:AGREED_SHOWN]],
                sealable=self.sealing is not None and self.sealing.keys.receiver(node) is not None,
            )
            for node, allowed in partners.allowed.items()
        }

    def surroundings(self) -> Surroundings:
        engine = self.engine
        direct = set(map(str, engine.uplink.partners))
        return Surroundings(
            now_ms=engine.core.now_ms(),
            overdue_ms=int(self.settings.protocol.overdue_s * 1000),
            has_hub=engine.partners.has_hub,
            link_up=engine.uplink.is_up,
            direct_nodes=direct,
            online_nodes={node for node, online in engine.partners.online.items() if online}
            | {str(self.address)}
            | direct,
            known_nodes={*engine.partners.allowed, str(self.address)} if engine.partners.complete else None,
            away_rows=engine.sender.away_since,
            inquiry_counts=engine.sender.inquiry_counts,
            blocked_rows={order.blocked for order in engine.handover.orders.values() if order.blocked},
            outage=self._outage,
        )

    def _outage(self, node: str) -> LinkOutage:
        if self.settings.has_no_hub and self.direct is not None:
            return self.direct.outage(parse_address(node))
        return self.uplink.outage

    def latency(self) -> Mapping[Stage, Histogram]:
        return self.engine.core.latency.histograms

    async def wait_drained(self, timeout_s: float) -> bool:
        deadline = self.clock.monotonic() + timeout_s
        while any(lane.flight for lane in self.engine.rows.pump.lanes.values()):
            if self.clock.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True
