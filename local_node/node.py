"""An institution's node as a process."""

import asyncio
import shutil
import ssl
from collections.abc import Mapping

import structlog
from msgspec.structs import replace as replace_fields

from local_node.doors.notices import POLL_S
from local_node.doors.schedule import POLL_S as SCHEDULE_POLL_S
from local_node.link.answers import Answers
from local_node.link.direct import PartnerLogins, is_withdrawn, partner_address
from local_node.link.single_request import VIRTUAL_HOST
from local_node.operations.missing import EVERY_S, JOB, MissingDocuments
from local_node.operations.table import OPERATIONS
from local_node.parts import SCHEDULE, assemble
from local_node.pieces.remains import SWEEP_S
from local_node.ports import LocalParts
from local_node.renewal import CHECK_S
from semq.answers.status import CertificateStatus, NodeStatus, PartnerStatus
from semq.broker.users import Authenticator
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
from semq.service.datagrams.ends import status_of
from semq.service.links.rights import UMX
from semq.service.node import APPLICATIONS, Node
from semq.service.node_host import Ground
from semq.store.unit import Recovered
from semq.store.views import submissions
from semq.store.views.messages import certificates
from semq.umx_t.agreement import agreed_text
from semq.umx_t.records import Presence

log = structlog.get_logger("semq.local")
AGREED_SHOWN = 5  # agreements with one partner that node.status shows
DISK_CHECK_S = 10.0


class LocalNode(Node[LocalEngine]):
    """A local node."""

    table = OPERATIONS
    companion_sections = ("folders", "webhooks", "http")
    node_identity: NodeIdentity | None = None  #: None if the node uses no certificates
    sealing: Sealing | None = None  #: None without certificates
    logins: PartnerLogins | None = None  #: None without [direct]
    parts: LocalParts
    missing: MissingDocuments
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

    def assemble(self, ground: Ground[LocalEngine]) -> None:
        self.missing = MissingDocuments(self)
        self.made_parts = (self.missing,)
        self.parts = assemble(ground, Answers(self), self.node_identity, self.logins)

    def build_engine(self, recovered: Recovered) -> LocalEngine:
        parts = self.parts
        engine = LocalEngine(
            self.own_store, recovered, self.store, self.clock, self.engine_settings(), parts.inboxes, parts.events,
            self.sealing or InClear(), self.clockwork.on_mail, self.spans, self._known_partners(),
            find_pieces=parts.assembly.find_pieces,
        )  # fmt: skip
        engine.acceptance.report_scheduled(parts.schedule.note_scheduled)
        engine.report_start_seen(self._note_start_seen)
        if self.engine_starts:
            engine.take_over(self.engine)
            parts.transfers.halt()  # its tasks use the present engine, and begin again with the sessions
        return engine

    def _known_partners(self) -> Partners:
        """Return the directory of a new engine: the hub fills it, or the configuration has filled it."""
        return Partners() if self.settings.hub is not None else Partners.configured(self._direct_partners())

    def _direct_partners(self) -> list[str]:
        return [str(partner_address(node_id)) for node_id in self.settings.direct]

    def _note_start_seen(self, peer: str, record: Presence, present: int) -> None:
        if (seen := record.start_seen) >= present:
            found = f"{peer} has seen start {seen} of this store, and this is start {present}"
            self.store.note_missing_commits(f"{found}, so it was restored from a backup")
        else:
            self.missing.seen[peer] = record
        self.clockwork.hasten(JOB)

    def authenticator(self) -> Authenticator:
        if not self.settings.direct:
            return self.users
        self.logins = PartnerLogins(self.users, self.settings.direct, self._is_withdrawn)
        return self.logins

    def _is_withdrawn(self, certificate: NodeCertificate) -> bool:
        """Return whether the hub has withdrawn a partner's certificate, as far as this node knows."""
        if self.settings.hub is None or self.sealing is None:
            return False
        return is_withdrawn(certificate, self.sealing.known(str(certificate.node)))

    def apply_settings(self, before: Settings) -> None:
        self.engine.core.reconfigure(self.engine_settings())
        if self.parts.direct is not None and self.settings.direct != before.direct:
            self.parts.direct.change(self.settings.direct)
            self.engine.partners.configure(self._direct_partners())

    async def begin_sessions(self) -> None:
        parts = self.parts
        if parts.offering is not None and not parts.offering.port.is_open:
            await parts.offering.start(self.settings.amqp.host)
        if self.engine_starts == 1:
            self.dial()
        else:
            await self._restart_links()
        self.engine.completions.poll()  # before documents are delivered again
        for queue in parts.inboxes.queues.values():
            queue.begin()
        parts.submissions.poll()
        parts.schedule.release_due()
        parts.transfers.begin()

    def dial(self) -> None:
        self.parts.hub.start()
        if self.parts.direct is not None:
            self.parts.direct.dial()

    async def _restart_links(self) -> None:
        await self.parts.hub.restart()
        if self.parts.direct is not None:
            await self.parts.direct.restart()

    async def end_sessions(self) -> None:
        self.engine.acceptance.stop()
        self.engine.flush()  # records that would have waited for later ones
        await self.parts.transfers.stop()
        await self.parts.remains.stop()
        if self.parts.direct is not None:
            await self.parts.direct.stop()
        await self.parts.hub.stop()

    def notified(self, channel: str) -> None:
        if channel == "semq_submit":
            self.parts.schedule.release_due()
            self.parts.sql_submissions.note()
        elif channel == "semq_done":
            self.parts.sql_done.note()

    def jobs(self) -> list[ScheduledJob]:
        parts, factor = self.parts, self.host.poll_factor
        jobs = [
            parts.sql_submissions.job(factor),
            ScheduledJob(SCHEDULE, SCHEDULE_POLL_S * factor, parts.schedule.release_due),
            ScheduledJob("pieces", POLL_S * factor, parts.transfers.search),
            ScheduledJob("remains", SWEEP_S * factor, parts.remains.sweep),
            ScheduledJob(JOB, EVERY_S * factor, self.missing.ask),
            parts.sql_done.job(factor),
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
        if self.parts.direct is not None:
            await self.parts.direct.check(self.clock.wall())  # first, because the next steps fail without the key ring
        await self._adopt_certificate()
        if self.parts.renewing is not None:
            await self.parts.renewing.renew_if_due()
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
        await self._restart_links()

    def apply_authorities(self) -> None:
        """Apply the present authorities to new connections and to partners' certificates."""
        if self.node_identity is not None:
            if self.settings.amqp.tls:
                self.server.listener.use_tls(self.node_identity.server_tls())
            self.parts.hub.use_tls(self.node_identity.client_tls())
            if self.parts.direct is not None:
                self.parts.direct.use_tls(self.node_identity.client_tls())
        if self.sealing is not None:
            self.sealing.check_all()

    def identity_in_use(self) -> NodeIdentity:
        if self.node_identity is None:
            raise NoIdentity("The node uses no certificates (hub.url is amqp://).")
        return self.node_identity

    def certificate_status(self) -> CertificateStatus:
        """Return the state of the own certificate; a hub may have revoked it. Raises NoIdentity."""
        status = self.identity_in_use().status()
        return replace_fields(status, state="revoked") if self.parts.hub.is_revoked else status

    def schedule_of(self, side: str) -> Schedule:
        """Return the engine's schedule of inquiries about rows of a side, ``outbound`` or ``inbound``."""
        return self.engine.owed_acks.schedule if side == "inbound" else self.engine.asker.schedule

    async def status(self) -> NodeStatus:
        hub, direct = self.parts.hub, self.parts.direct
        dialled = (uplink.datagrams for uplink in (hub, *(direct.uplinks.values() if direct is not None else ())))
        ends = [end for end in (self.parts.offering, *dialled) if end is not None]
        sent, waiting = self.engine.uplink.sent_directly, self.parts.submissions.waiting
        return replace_fields(
            await super().status(),
            hub=hub.status(),
            datagrams=status_of(ends) if self.settings.datagrams is not None else None,
            direct=direct.status(sent) if direct is not None else {},
            missing=self.missing.survey.status() if self.missing.survey is not None else None,
            drained=self.engine.acceptance.stopping,
            certificate=self.certificate_status() if self.node_identity is not None else None,
            sql_waiting={target: str(error) for target, error in waiting.items()},
            sql_submissions=await self.store.execute(submissions.counts),
            partners=self._partners(),
        )

    def _partners(self) -> dict[str, PartnerStatus]:
        waiting, quota = self.engine.rows.unsettled, self.settings.protocol.quota_rows_per_partner
        surroundings, partners = self.surroundings(), self.engine.partners
        return {
            node: PartnerStatus(
                online=surroundings.presence(node),
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
            outage=self.parts.hub.outage_of,
        )

    def latency(self) -> Mapping[Stage, Histogram]:
        return self.engine.core.latency.histograms

    async def wait_drained(self, timeout_s: float) -> bool:
        deadline = self.clock.monotonic() + timeout_s
        while any(lane.flight for lane in self.engine.rows.pump.lanes.values()):
            if self.clock.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True
