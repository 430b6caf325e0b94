"""The hub as a process."""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import structlog
from msgspec import UNSET
from msgspec.structs import replace as replace_fields

from platform_node.all_stores.fan_out import FanOut
from platform_node.ask_exchange import AskService
from platform_node.authority_roll import ADVANCE_S as ROLL_S
from platform_node.authority_roll import JOB as AUTHORITY_JOB
from platform_node.authority_roll import AuthorityRoll
from platform_node.authority_state import LOCK_FILE
from platform_node.certificate_directory import NEVER, KnownCertificates
from platform_node.cluster import Membership
from platform_node.directory import HubDirectory, InstitutionState
from platform_node.enrolment import EnrolmentService
from platform_node.logins import ENROLL, TOKEN_USER_PREFIX, HubLogins
from platform_node.operations.definitions import FOLLOW_S, DefinitionOperations
from platform_node.operations.table import OPERATIONS
from platform_node.ports import HubParts
from platform_node.questions import Questions
from platform_node.registry import Registry, prepare_authority, sign_own
from platform_node.session_guard import REVOCATION_S, Guard
from semq.amqp.errors import AccessRefused, AmqpError, ConnectionForced, ResourceLocked
from semq.amqp.wire import Table
from semq.answers.status import NodeStatus
from semq.broker.users import Authenticator, User, digest_of
from semq.broker.vhost import SessionHooks
from semq.config.settings import Settings
from semq.engine.hub_engine import HubEngine
from semq.engine.people.stuck import Surroundings
from semq.engine.time.schedule import Schedule
from semq.errors import SemqError
from semq.moments import utc_text
from semq.pki.certificate import read_certificate
from semq.pki.errors import NoAuthority
from semq.service.clockwork import ScheduledJob
from semq.service.credentials.identity import NodeIdentity
from semq.service.credentials.keyring import split
from semq.service.datagrams.ends import OfferingEnd
from semq.service.links.rights import UMX
from semq.service.links.sessions import Links, NodeLink, Refuse
from semq.service.node import APPLICATIONS, Node
from semq.service.node_host import Ground
from semq.service.operations.operation import OfferedOperation
from semq.store.control.cluster import StoreState
from semq.store.files import locked
from semq.store.identities import DEFINED, REVOKED
from semq.store.reader import Execute
from semq.store.unit import Recovered
from semq.store.views.messages import certificates
from semq.umx_t.address import Address, NodeType, parse_address

log = structlog.get_logger("semq.platform")
WARN_S = 3600.0  # interval of the warnings that certificates of institutions end soon
NO_LONGER_SERVED = "this institution is no longer served"
STORES_S = 10.0  # interval of the job that writes the stores of nodes; a login hastens the job


class HubNode(Node[HubEngine]):
    """The hub."""

    vhosts = (APPLICATIONS, UMX, ENROLL)
    table = OPERATIONS
    node_identity: NodeIdentity | None = None  #: None without amqp.tls
    registry: Registry
    membership: Membership | None = None  #: None without [cluster]
    control: Execute  #: runs queries and changes on the control database
    authority_roll: AuthorityRoll | None = None  #: None if the hub has no authority of its own
    parts: HubParts
    _is_admitted = False  #: whether nodes may attach to the present engine

    async def prepare(self) -> None:
        await self._open_control()
        authority = None
        if self.settings.amqp.tls:
            authority = await asyncio.to_thread(prepare_authority, self.settings, self.clock)
            self.node_identity = NodeIdentity(self.settings, self.clock)
            log.info("authorities", fingerprints=self.node_identity.trust.fingerprints, signs=authority is not None)
        self.registry = Registry(self.control, self.clock, self.settings, authority)
        await self.registry.open()
        stored = await self.store.execute(certificates)
        # Before the first login: partners must not get certificates that were revoked after they were stored.
        self.certificates = await asyncio.to_thread(KnownCertificates, stored, self._check_certificate)
        self.directory = HubDirectory(self.settings.nodes, self.certificates, self.clock)
        self.definition_operations = DefinitionOperations(self)
        await self.definition_operations.follow()

    async def _open_control(self) -> None:
        self.control = self.store.execute
        if self.settings.cluster is not None:
            if self.membership is None:
                self.membership = Membership(
                    self.settings, self.settings.cluster, self.clock, self.store.execute, self.store_state
                )
                self._cleanup.push_async_callback(self.membership.close)
                self._cleanup.push_async_callback(self.membership.leave)  # after the sessions have ended
            await self.membership.open()
            self.control = self.membership.execute

    def tls(self) -> ssl.SSLContext | None:
        return self.node_identity.server_tls() if self.node_identity is not None else None

    def greeting(self) -> Table:
        # Nodes that enrol compare the authority with the operator's fingerprint.
        authority = self.registry.authority
        return {"authority": authority.pem.decode("ascii")} if authority is not None else {}

    def build_engine(self, recovered: Recovered) -> HubEngine:
        cluster = None
        if self.membership is not None:
            cluster = self.membership.build(self.directory, self.turn, self.engine_handle.post, self._end_older_session)
        engine = HubEngine(
            self.own_store, recovered, self.store, self.clock, self.engine_settings(), self.directory,
            self.clockwork.on_mail, cluster, self.spans,
        )  # fmt: skip
        if self.membership is not None:
            self.membership.begin(engine)
        return engine

    def _end_older_session(self, node: Address) -> None:
        self.parts.links.end_session_of(
            str(node), ConnectionForced("the node has an older session at another instance")
        )

    def authenticator(self) -> Authenticator:
        return HubLogins(
            self.users,
            self.is_node,
            self.registry if self.node_identity is not None else None,
            allow_plain=self.settings.amqp.allow_plain,
        )

    def users_of(self, settings: Settings) -> list[User]:
        # The user of a link is the address of its node, with which the engine compares the origins of frames.
        names = {str(Address(NodeType.LOCAL, node_id)): account for node_id, account in settings.nodes.items()}
        links = [
            User(name, digest_of(account.password.get_secret_value()))
            for name, account in names.items()
            if account.password is not None
        ]
        return super().users_of(settings) + links

    def apply_settings(self, before: Settings) -> None:
        self.engine.core.reconfigure(self.engine_settings())
        if self.settings.nodes != before.nodes:
            served = set(self.directory.nodes())
            self.directory.configure(self.settings.nodes)
            self.apply_definitions(served)

    def is_node(self, name: str) -> bool:
        return self.directory.knows(name)

    def assemble(self, ground: Ground[HubEngine]) -> None:
        datagrams = None
        if self.settings.datagrams is not None:
            datagrams = OfferingEnd(self.settings.datagrams, self.address, self.clock)
            self._cleanup.callback(datagrams.stop)
        credit_bytes = self.settings.protocol.credit_bytes
        links = Links(ground.engine, self.turn, credit_bytes, self._note_store, self._refuse_attachment, datagrams)
        questions = Questions(self.clock)
        guard = Guard(self.registry, self.clock)
        self.parts = HubParts(datagrams, links, questions, guard)
        self.authority_roll = AuthorityRoll(self) if self.registry.authority is not None else None
        self.ask_service = AskService(self)
        self.made_parts = (self.definition_operations, self.ask_service)
        umx, enroll = self.server.vhosts[UMX], self.server.vhosts[ENROLL]
        umx.register(links.exchange(ground.link_bytes_max))
        umx.register(questions.exchange())
        self._register_queues()
        umx.hooks.append(SessionHooks(on_open=links.check_login))
        for vhost in (umx, enroll):
            vhost.hooks.append(SessionHooks(guard.opened, guard.closed))
        enroll.register(self.ask_service.exchange(enroll))
        if self.node_identity is not None:
            enroll.register(EnrolmentService(self.registry, self.node_identity.trust).exchange(enroll))

    def _register_queues(self) -> None:
        vhost = self.server.vhosts[UMX]
        nodes = self.directory.nodes()
        for queue in [*self.parts.links.queues(nodes), *map(self.parts.questions.queue, nodes)]:
            if queue.name not in vhost.queues:
                vhost.register(queue)

    def apply_definitions(self, before: set[Address]) -> None:
        if self.engine_starts:
            self._register_queues()
            self.engine.send_changed_directory()
            removed = {str(node) for node in before.difference(self.directory.nodes())}
            removed |= {TOKEN_USER_PREFIX + name for name in removed}
            for session in [each for each in self.server.sessions if each.is_open and each.user in removed]:
                session.close(AccessRefused(NO_LONGER_SERVED))

    def _refuse_attachment(self, node: Address) -> AmqpError | None:
        """Return why a node may not attach its queues now; None if it may.

        If the node has a session at another instance, probe that instance, because it may have ended.
        """
        if not self.directory.serves(node):
            return AccessRefused(NO_LONGER_SERVED)
        if not self._is_admitted:
            return ConnectionForced("this hub takes no sessions yet: it waits for its control database")
        instances = self.engine.instances
        if instances is not None and instances.fronts.probe(node):
            return ResourceLocked(f"node {node} has a session at another instance of the hub")
        return None

    def _note_store(self, node: str, store_uuid: str, boot: int, refuse: Refuse) -> int:
        self.clockwork.hasten("node_stores")  # also after a refusal
        return self.registry.note_store(node, store_uuid, boot, refuse)

    def jobs(self) -> list[ScheduledJob]:
        jobs = [
            ScheduledJob("node_stores", STORES_S, self.registry.write_stores),
            ScheduledJob("definitions", FOLLOW_S, self.definition_operations.follow),
        ]
        if self.membership is not None:
            jobs += self.membership.jobs(self._fail)
        if self.node_identity is not None:
            jobs += [
                ScheduledJob("revocation", REVOCATION_S, self._check_links),
                ScheduledJob("certificate", 5.0, self._maintain_certificate),
                ScheduledJob("certificates", WARN_S, self._warn_of_expiry),
                ScheduledJob(AUTHORITY_JOB, ROLL_S, self._continue_roll),
            ]
        return jobs

    def _check_certificate(self, node: Address, pem: str) -> datetime:
        if self.node_identity is None:
            return NEVER
        first, chain = split(pem)
        certificate = read_certificate(first.encode())
        at = max(self.clock.wall(), certificate.not_before)  # this clock may be slow; partners check the beginning
        self.node_identity.trust.verify(certificate, at, node=node, chain=chain)
        self.registry.check(certificate)
        return min(certificate.not_after, *(issuer.not_valid_after_utc for issuer in chain), NEVER)

    def notified(self, channel: str) -> None:
        if channel == DEFINED:
            self.clockwork.hasten("definitions")
        elif channel == REVOKED and self.node_identity is not None:
            self.clockwork.hasten("revocation")

    async def _check_links(self) -> None:
        if await self.registry.refresh():
            self.apply_revocations()

    def apply_revocations(self) -> None:
        self.parts.guard.check()
        self._check_certificates()

    def _check_certificates(self) -> None:
        for name in self.certificates.check_all():
            self.engine.send_certificates(parse_address(name))

    def _maintain_certificate(self) -> None:
        """Act on expired certificates, and renew the hub's own when due."""
        if self.node_identity is not None:
            # First, because the other steps fail if the key ring cannot be read.
            self.parts.guard.check()  # expired certificates count as revoked
            if self.certificates.is_due(self.clock.wall()):  # only then, because the check blocks the event loop
                self._check_certificates()
            try:
                is_renewed = self.registry.authority is not None and self.node_identity.is_renewal_due()
                if self.node_identity.is_outdated() or is_renewed:
                    self.renew_own()
            except SemqError as error:
                log.error("certificate_not_adopted", error=error.advice())
            self.node_identity.maintain()

    async def _warn_of_expiry(self) -> None:
        for node, days in (await self.registry.days_left()).items():
            if days <= self.settings.tls.warn_days:
                log.warning("certificate_of_institution_ends", node=node, days_left=days)

    async def _continue_roll(self) -> None:
        if self.authority_roll is not None:
            await self.authority_roll.advance()

    def announce_authority(self) -> None:
        self.server.announce(self.greeting())

    def apply_authorities(self) -> None:
        """Apply the present authorities to new connections and to the directory's certificates."""
        if self.node_identity is not None:
            self.server.listener.use_tls(self.node_identity.server_tls())
        self._check_certificates()

    async def apply_authorities_and_end_sessions(self) -> None:
        self.apply_authorities()
        self.parts.guard.end_sessions("the hub trusts other authorities now")

    def renew_own(self) -> None:
        """Issue a new certificate for the hub, or use the one that another instance has issued. Raises NoAuthority."""
        if self.node_identity is None:
            raise NoAuthority
        with locked(self.settings.pki_dir / LOCK_FILE):
            if self.node_identity.is_outdated():
                self.node_identity.adopt()
                self.apply_authorities()
            elif self.registry.authority is None:
                raise NoAuthority
            else:
                sign_own(self.node_identity.ring, self.registry.authority, self.settings, self.clock)
                self.node_identity.rotate()

    @property
    def store_name(self) -> str:
        return f"{self.settings.node.semq_id}.{self.settings.node.semq_db_id}"

    async def served_stores(self) -> list[str]:
        return [self.store_name] if self.membership is None else await self.membership.served()

    async def begin_sessions(self) -> None:
        # End older sessions first, because the new engine would ignore their frames. Their nodes can then go to other
        # instances, even if this instance has to wait for its control database.
        self._is_admitted = False
        self.parts.links.end_all_sessions(ConnectionForced("the hub has opened its store again"))
        if self.parts.datagrams is not None and not self.parts.datagrams.port.is_open:
            await self.parts.datagrams.start(self.settings.amqp.host)
        if self.membership is not None and await self.membership.admit(UUID(self.recovered.store_uuid), self.endpoint):
            self.store.note_missing_commits("the control database knows later ones")
        self._is_admitted = True

    def store_state(self) -> StoreState:
        """Return the state of the store, by which the control database detects a restored, older store."""
        head = self.store.chain.head
        return StoreState(self.recovered.boot, *((head.place, head.count) if head is not None else (0, 0)))

    def offered(self) -> Mapping[str, OfferedOperation]:
        if self.membership is None:
            return self.operations
        self.membership.store_questions.handlers = {**self.operations, **self.ask_service.handlers()}
        return FanOut(self.membership, self.operations, self.ask_service.with_parties).offered()

    def identity_in_use(self) -> NodeIdentity:
        if self.node_identity is None:
            raise NoAuthority("The hub serves no TLS (amqp.tls).")
        return self.node_identity

    def schedule_of(self, side: str) -> Schedule | None:
        return self.engine.custody.schedule if side == "outbound" else None

    def institutions(self) -> list[InstitutionState]:
        return [self._institution(str(node)) for node in self.directory.nodes()]

    def _institution(self, node: str) -> InstitutionState:
        stated, present, known = (
            self.parts.links.statements.get(node), self.engine.sessions.get(node), self.registry.stores.get(node)
        )  # fmt: skip
        session = present.link.session if present is not None and isinstance(present.link, NodeLink) else None
        seen = self.clock.wall() if present is not None else known.seen_at if known is not None else None
        return InstitutionState(
            node=node,
            online=node in self.engine.sessions,
            held=self.engine.custody.rows_by_target.get(node, 0),
            store_uuid=stated.store_uuid if stated else UNSET,
            boot=stated.boot if stated else UNSET,
            incarnation=stated.incarnation if stated else UNSET,
            address=session.peer.host if session is not None else UNSET,
            version=str(session.client_properties.get("version", ""))[:40] if session is not None else UNSET,
            seen_at=utc_text(seen) if seen is not None else UNSET,
        )

    def surroundings(self) -> Surroundings:
        return Surroundings(
            now_ms=self.engine.core.now_ms(),
            overdue_ms=int(self.settings.protocol.overdue_s * 1000),
            online_nodes=frozenset(self.engine.sessions),
            known_nodes=frozenset(map(str, self.directory.nodes())),
        )

    async def status(self) -> NodeStatus:
        identity = self.node_identity
        return replace_fields(
            await super().status(),
            carrier=self.membership.carrier.status() if self.membership is not None else None,
            datagrams=self.parts.datagrams.status() if self.parts.datagrams is not None else None,
            certificate=identity.status() if identity is not None else None,
            certificates=await self.registry.days_left() if identity is not None else None,
        )
