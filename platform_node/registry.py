"""The registry of the hub: its authority, issued certificates, enrolment tokens, revocations, stores of nodes.

Certificates and tokens are rows in the control database, so that a token works only once. Revoked serial numbers in
memory are read again every ten seconds, and after a NOTIFY. At a login, the uuid of the node's store is compared at
once with the one in memory, and later by a job with the control database, which other instances change, too.
"""

import asyncio
from datetime import datetime, timedelta
from hashlib import sha256

import structlog

from platform_node.authority_state import signing_folder
from platform_node.errors import NoSuchCertificate, SecondStore, TooManyRenewals
from semq.clock import Clock
from semq.config.settings import Settings
from semq.moments import utc_text
from semq.pki.authority import Authority, create_authority, key_of_request, read_authority
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import KeyRevoked, NoAuthority, Revoked, TokenRefused, WrongName
from semq.pki.slots import KeyRing
from semq.pki.trust import TrustStore
from semq.service.credentials.identity import days_left, ring_of
from semq.service.links.allowance import RateAllowance
from semq.service.links.sessions import Refuse
from semq.store import identities
from semq.store.files import write_safely
from semq.store.identities import IssuedCertificate, NodeStore, Ticket
from semq.store.postgres.errors import RowRefused
from semq.store.reader import Execute
from semq.umx_t.address import Address, NodeType, parse_address

log = structlog.get_logger("semq.registry")
RENEWALS_MAX = 20
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


def prepare_authority(settings: Settings, clock: Clock) -> Authority | None:
    """Return the hub's authority; None if it is elsewhere (tls.trust). At the first start, create it and a certificate
    for the hub. Raises KeyRefused."""
    ring = ring_of(settings)
    authority = read_authority(signing_folder(settings.pki_dir), ring.passphrase())
    if authority is None:
        if settings.tls.trust is not None:
            return None
        authority = create_authority(settings.node.id, clock.wall())
        authority.write(settings.pki_dir, ring.passphrase())
    if not ring.trust_path.exists():
        write_safely(ring.trust_path, authority.pem)
    if not ring.is_enrolled:
        sign_own(ring, authority, settings, clock)
        ring.rotate(clock.wall())
    return authority


def sign_own(ring: KeyRing, authority: Authority, settings: Settings, clock: Clock) -> NodeCertificate:
    """Issue a certificate for the hub and put it into the slot ``next``."""
    now = clock.wall()
    names = tuple(dict.fromkeys((*settings.tls.names, *LOCAL_NAMES)))
    issued = authority.issue(ring.next_key().public_key(), ring.node, now, settings.tls.certificate_days, names)
    return ring.store_certificate(issued.pem + authority.pem, TrustStore([authority.certificate]), now)


class Registry:
    """Certificates, tokens and logins of nodes."""

    def __init__(self, execute: Execute, clock: Clock, settings: Settings, authority: Authority | None) -> None:
        self.authority = authority
        self.revoked: set[str] = set()  #: serial numbers
        self.stores: dict[str, NodeStore] = {}  #: by node
        #: by node and uuid: stores that ``write_stores`` has not written yet, and functions that refuse their logins
        self._unwritten: dict[tuple[str, str], tuple[NodeStore, list[Refuse]]] = {}
        self._disputed: set[str] = set()  #: nodes whose login was refused; another instance may have rebound them
        self._storing = asyncio.Lock()  #: held while rows of stores are read or changed
        self._execute = execute
        self._clock = clock
        self._settings = settings
        self._renewals = renewals(settings.tls.certificate_days)

    async def open(self) -> None:
        """Read revocations and stores. Raises StoreUnavailable."""
        await self.refresh()
        self.stores = {store.node: store for store in await self._execute(identities.stores)}

    async def refresh(self) -> bool:
        """Read the serial numbers of revoked certificates; return whether there are new ones."""
        # Certificates that ended less than a day ago are included: clocks may be slow. Serial numbers are only added: a
        # restored database must not make a revoked certificate valid.
        day_ago = self._clock.wall() - timedelta(days=1)
        before = len(self.revoked)
        self.revoked |= await self._execute(identities.revoked_serials, day_ago)
        return len(self.revoked) != before

    def check(self, certificate: NodeCertificate) -> None:
        """Raise Revoked for a revoked certificate."""
        if certificate.serial_text in self.revoked:
            raise Revoked(node=str(certificate.node), serial=certificate.serial_text)

    # --- tokens and certificates
    async def new_token(self, node: Address, host_names: tuple[str, ...], hours: float) -> tuple[str, Ticket]:
        """Create a token for one enrolment; only the hash is stored. Raises NoAuthority."""
        if self.authority is None:
            raise NoAuthority
        token, now = self._clock.uuid().hex, self._clock.wall()
        ticket = Ticket(hash_of(token), str(node), host_names, now, now + timedelta(hours=hours))
        await self._execute(identities.add_token, ticket)
        log.info("token_made", node=str(node), until=utc_text(ticket.expires_at))
        return token, ticket

    async def ticket(self, node: str, token: bytes) -> Ticket:
        """Return the row of a node's token, also of a used one. Raises TokenRefused with the reason, for the log."""
        ticket: Ticket | None = await self._execute(identities.token, hash_of(token))
        if ticket is None:
            raise TokenRefused("The token is unknown.", node=node)
        if ticket.node != node:
            raise TokenRefused("The token is for another institution.", node=node, token_for=ticket.node)
        if ticket.expires_at <= self._clock.wall():
            raise TokenRefused("The token is too old.", node=node, valid_until=utc_text(ticket.expires_at))
        return ticket

    async def tokens(self) -> list[Ticket]:
        tickets: list[Ticket] = await self._execute(identities.tokens)
        return tickets

    async def enrol(self, node: Address, token: str, request: bytes) -> bytes:
        """Sign the key of a node that enrols with a token.

        Raises TokenRefused, KeyRevoked, RequestRefused, NoAuthority.
        """
        try:
            ticket = await self.ticket(str(node), token.encode())
        except TokenRefused as error:
            log.warning("token_refused", node=str(node), error=str(error))
            raise TokenRefused(node=str(node)) from None  # without the reason, which the peer must not get
        issued, now = self._sign(node, request, ticket.host_names), self._clock.wall()
        stored: IssuedCertificate | None = await self._execute(
            identities.use_token, ticket.hash, now, _row(issued, now)
        )
        if stored is None and await self._execute(identities.is_revoked_key, issued.key_id):
            log.error("revoked_key", node=str(node), key_id=issued.key_id)
            raise KeyRevoked(node=str(node), key_id=issued.key_id)  # the token stays unused
        if stored is None:
            log.error("token_used_twice", node=str(node), used_at=str(ticket.used_at), serial=ticket.serial)
            raise TokenRefused(node=str(node))
        log.info("node_enrolled", node=str(node), serial=stored.serial, key_id=stored.key_id)
        # A repeated request gets the certificate stored for the key.
        return issued.pem if stored.serial == issued.serial_text else _pem(stored)

    async def renew(self, current: NodeCertificate, request: bytes) -> bytes:
        """Sign the next key of a node.

        Raises Revoked, KeyRevoked, TooManyRenewals, RequestRefused, NoAuthority.
        """
        self.check(current)
        if not self._renewals.take(str(current.node), self._clock.monotonic()):
            raise TooManyRenewals(node=str(current.node))
        names = tuple(name for name in current.host_names if name not in LOCAL_NAMES)
        issued = self._sign(current.node, request, names)
        row = _row(issued, self._clock.wall())
        if not await self._execute(identities.add_certificate, row, current.serial_text):
            if await self._execute(identities.is_revoked_key, issued.key_id):
                log.error("revoked_key", node=str(current.node), key_id=issued.key_id)
                raise KeyRevoked(node=str(current.node), key_id=issued.key_id)
            raise Revoked(node=str(current.node), serial=current.serial_text)
        log.info("certificate_renewed", node=str(current.node), serial=issued.serial_text, before=current.serial_text)
        return issued.pem

    def _sign(self, node: Address, request: bytes, host_names: tuple[str, ...]) -> NodeCertificate:
        if self.authority is None:
            raise NoAuthority
        names = tuple(dict.fromkeys((*host_names, *LOCAL_NAMES)))
        days = self._settings.tls.certificate_days
        return self.authority.issue(key_of_request(request), node, self._clock.wall(), days, names)

    async def revoke(self, which: str, why: str) -> list[IssuedCertificate]:
        """Revoke one certificate by serial number, or all of a node. Raises NoSuchCertificate."""
        names = (which, f"{NodeType.LOCAL:d}.{which}")
        serials, revoked = await self._execute(identities.revoke, names, self._clock.wall(), why)
        if not serials:
            raise NoSuchCertificate(which=which[:80])
        self.revoked |= serials
        for certificate in revoked:
            log.warning("certificate_revoked", node=certificate.node, serial=certificate.serial, why=why)
        issued: list[IssuedCertificate] = revoked
        return issued

    async def certificates(self, node: Address | None = None) -> list[IssuedCertificate]:
        """Return the issued certificates of a node (None: of all nodes), newest first."""
        certificates: list[IssuedCertificate] = await self._execute(
            identities.certificates, str(node) if node else None
        )
        return certificates

    async def days_left(self) -> dict[str, float]:
        """Return the days until the last certificate of each node ends."""
        now = self._clock.wall()
        return {node: days_left(end, now) for node, end in (await self._execute(identities.latest_ends)).items()}

    # --- stores of nodes: uuid, and the number of openings
    def note_store(self, node: str, store_uuid: str, boot: int, refuse: Refuse) -> int:
        """Note a login, and return the number of openings at the login before. Raises SecondStore if the node has
        another store than before (PROTOCOL.md section 10).

        ``refuse``: called by ``write_stores`` if another instance has noted another store.
        """
        bound = self.stores.get(node)
        if bound is not None and bound.store_uuid != store_uuid:
            self._disputed.add(node)
            raise SecondStore(node=node, known=bound.store_uuid, now=store_uuid)
        store = self.stores[node] = NodeStore(node, store_uuid, boot, self._clock.wall())
        _, refusals = self._unwritten.get((node, store_uuid), (None, []))
        refusals.append(refuse)
        self._unwritten[node, store_uuid] = store, refusals
        return bound.boot if bound is not None else 0

    async def write_stores(self) -> None:
        """Write the stores of nodes that have logged in, and read the stores of refused nodes again.

        Raises RowRefused after the others if the database refuses a row, which stays for the next call.
        """
        refused: dict[tuple[str, str], RowRefused] = {}
        async with self._storing:
            while key := next((key for key in self._unwritten if key not in refused), None):
                store, refusals = self._unwritten[key]
                try:
                    recorded: NodeStore = await self._execute(identities.note_store, store)
                except RowRefused as error:
                    refused[key] = error
                    continue
                is_refused = recorded.store_uuid != store.store_uuid
                if is_refused or self._unwritten[key][0] is store:  # else a later login waits
                    del self._unwritten[key]
                self.stores[store.node] = recorded
                for refuse in reversed(refusals) if is_refused else ():  # each restores what the node stated before it
                    refuse(SecondStore(node=store.node, known=recorded.store_uuid, now=store.store_uuid))
            while self._disputed:
                node = self._disputed.pop()
                known: NodeStore | None = await self._execute(identities.store_of, node)
                if known is None:
                    self.stores.pop(node, None)
                else:
                    self.stores[node] = known
        if refused:
            raise next(iter(refused.values()))

    async def rebind(self, node: str) -> bool:
        """Let a node log in with another store; return whether the hub knew one."""
        async with self._storing:
            was_bound: bool = await self._execute(identities.forget_store, node)
            self.stores.pop(node, None)
            self._unwritten = {key: waiting for key, waiting in self._unwritten.items() if key[0] != node}
        log.warning("node_may_come_with_another_store", node=node, known=was_bound)
        return was_bound


def renewals(certificate_days: float) -> RateAllowance:
    """Return the allowance of each node: RENEWALS_MAX renewals an hour, or a lifetime of a certificate if shorter."""
    return RateAllowance(RENEWALS_MAX, RENEWALS_MAX / min(3600.0, certificate_days * 86400.0))


def hash_of(token: str | bytes) -> bytes:
    """Return the hash of a token. A fast one is enough, because tokens are random and long."""
    return sha256(token.encode() if isinstance(token, str) else token).digest()


def node_in(name: str) -> Address:
    """Return the institution that an operation names. Raises BadAddress, WrongName."""
    node = parse_address(name).node
    if node.type != 1:
        raise WrongName("Only institutions' nodes enrol.", found=str(node))
    return node


def _row(issued: NodeCertificate, now: datetime) -> IssuedCertificate:
    return IssuedCertificate(issued.serial_text, str(issued.node), issued.key_id, issued.der, now, issued.not_after)


def _pem(issued: IssuedCertificate) -> bytes:
    return read_certificate(issued.der).pem
