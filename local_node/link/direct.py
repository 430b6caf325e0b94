"""Direct links with partners: links that this node dials, and the login of partners that dial this node.

A partner logs in at virtual host ``umx`` with its certificate, as a node does at a hub. It is refused unless section
``direct`` of the configuration names it (PROTOCOL.md section 26).
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlsplit

import structlog
from msgspec.structs import replace

from local_node.link.hub_addresses import CONNECT_S, DialAddresses
from local_node.link.single_request import VIRTUAL_HOST
from local_node.link.uplink import Uplink, link_limits
from semq.amqp.errors import ConnectionForced
from semq.amqp.sasl import Credentials
from semq.answers.messages import LinkOutage
from semq.answers.status import DirectLink
from semq.broker.users import Permissions, UserTable
from semq.broker.vhost import SessionHooks, VirtualHost
from semq.config.sections import DirectSection
from semq.errors import SemqError
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import Revoked
from semq.service.credentials.identity import certificate_of, must_be
from semq.service.credentials.keyring import split
from semq.service.links.rights import UMX, link_permissions
from semq.service.links.sessions import Links
from semq.service.monitoring.health import NOT_DIALLED
from semq.transport.dialer import PRODUCT, DialConfig
from semq.transport.peer import PeerInfo
from semq.umx_t.address import Address, NodeType

# Permissions of a partner in the virtual host of questions (``partner_questions``).
ASK_PERMISSIONS = Permissions(configure=r"^amq\.gen-", write=r"^(semq\.ask|amq\.gen-.*)$", read=r"^amq\.gen-")
CertificateCheck = Callable[[NodeCertificate], bool]
log = structlog.get_logger("semq.direct")


class PartnerLogins:
    """The ``Authenticator`` of a node with direct links: partners by certificate, all others by ``users``."""

    def __init__(self, users: UserTable, partners: Iterable[str], is_withdrawn: CertificateCheck) -> None:
        self.mechanisms = users.mechanisms
        self._users = users
        self.is_withdrawn = is_withdrawn
        self.refusals: dict[str, str] = {}  #: partner | why this node refused its last login or ended its session
        self.replace(partners)

    def replace(self, partners: Iterable[str]) -> None:
        self._partners = {str(partner_address(node_id)) for node_id in partners}
        for name in self.refusals.keys() - self._partners:
            del self.refusals[name]

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        """Return the name of the user; None refuses the login."""
        if mechanism == "EXTERNAL" and (name := self._partner(credentials, peer)) is not None:
            return name
        name = await self._users.authenticate(mechanism, credentials, peer)
        if name in self._partners:
            why = "a password does not prove an institution"
            self._note_refusal(name, why)
            log.warning("partner_refused", node=name, peer=str(peer), why=why)
            return None
        return name

    def _partner(self, credentials: Credentials, peer: PeerInfo) -> str | None:
        try:
            certificate = certificate_of(peer)
        except SemqError:
            return None  # an application's certificate
        name = str(certificate.node)
        if credentials.user not in ("", name) or name not in self._partners:
            why = "[direct] does not name it" if name not in self._partners else "it logs in under another name"
            self._note_refusal(name, why)
            log.warning("partner_refused", node=name, claims=credentials.user[:80], peer=str(peer), why=why)
            return None
        if self.is_withdrawn(certificate):
            self._note_refusal(name, "its certificate was revoked")
            log.warning("partner_revoked", node=name, peer=str(peer))
            return None
        self.refusals.pop(name, None)
        return name

    def _note_refusal(self, name: str, why: str) -> None:
        if name in self._partners:
            self.refusals[name] = f"this node refused its login: {why}"

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        if user in self._partners:
            return {UMX: link_permissions(user), VIRTUAL_HOST: ASK_PERMISSIONS}.get(vhost)
        return None if vhost in (UMX, VIRTUAL_HOST) else self._users.permissions(user, vhost)


class DirectLinks:
    """All direct links of a node."""

    def __init__(
        self,
        partners: Mapping[str, DirectSection],
        links: Links,
        logins: PartnerLogins,
        new_uplink: Callable[[Address, DirectSection, DialAddresses], Uplink],
        vhost: VirtualHost,
        own: Address,
        tls: ssl.SSLContext,
        bytes_max: int,
    ) -> None:
        """``vhost``: where partners log in. ``bytes_max``: the largest body on a link."""
        self._partners = partners
        self._logins = logins
        self._links = links
        self._new_uplink = new_uplink
        self._vhost = vhost
        self._own = own
        self._tls = tls
        self._limits = link_limits(bytes_max)
        self._stops: set[asyncio.Task[None]] = set()  #: tasks that end links after a reload
        self.uplinks: dict[Address, Uplink] = {}
        vhost.register(links.exchange(bytes_max))
        self._register(partners)
        vhost.hooks.append(SessionHooks(on_open=links.check_login))

    def dial(self) -> None:
        self._dial(self._partners)

    def change(self, partners: Mapping[str, DirectSection]) -> None:
        """Replace the partners, and dial new and changed ones."""
        former, self._partners = self._partners, partners
        self._logins.replace(partners)
        self._register(partners.keys() - former.keys())
        changed = [node_id for node_id in {*former, *partners} if former.get(node_id) != partners.get(node_id)]
        for uplink in (self.uplinks.pop(partner_address(node_id), None) for node_id in changed):
            if uplink is not None:
                task = asyncio.create_task(uplink.stop(), name="direct link removed")
                self._stops.add(task)
                task.add_done_callback(self._stops.discard)
        self._dial(node_id for node_id in changed if node_id in partners)

    def _register(self, node_ids: Iterable[str]) -> None:
        for queue in self._links.queues([partner_address(node_id) for node_id in node_ids]):
            if queue.name not in self._vhost.queues:
                self._vhost.register(queue)

    def _dial(self, node_ids: Iterable[str]) -> None:
        for node_id in node_ids:
            partner, section = partner_address(node_id), self._partners[node_id]
            configs = partner_dial_configs(section, self._own, partner, self._tls)
            if configs:
                addresses = DialAddresses(
                    [replace(config, limits=self._limits, check=self._check(config.check)) for config in configs]
                )
                uplink = self.uplinks[partner] = self._new_uplink(partner, section, addresses)
                uplink.start()

    def dial_config_for(self, partner: Address, virtual_host: str) -> DialConfig | None:
        """Return how to dial a virtual host of a partner; None if this node does not dial it."""
        uplink = self.uplinks.get(partner)
        return uplink.dial_config_for(virtual_host) if uplink is not None else None

    async def restart(self) -> None:
        self._links.end_all_sessions(
            ConnectionForced("the node has opened its store again, or trusts other authorities")
        )
        for uplink in self.uplinks.values():
            await uplink.restart()

    async def stop(self) -> None:
        self._links.end_all_sessions(ConnectionForced("the node stops"))
        for uplink in self.uplinks.values():
            await uplink.stop()
        await asyncio.gather(*self._stops)

    def use_tls(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        for uplink in self.uplinks.values():
            uplink.use_tls(tls)

    async def check(self, now: datetime) -> None:
        """End the sessions of partners whose certificate has expired or was withdrawn by the hub."""
        for name, link in list(self._links.links.items()):
            if fault := self._fault(link.session.peer, now):
                self._logins.refusals[name] = f"this node ended the link: its certificate {fault}"
                text = f"the certificate of this node is no longer valid: it {fault}"
                self._links.end_session_of(name, ConnectionForced(text))
        for partner, uplink in list(self.uplinks.items()):
            if uplink.peer_info is None:
                continue
            if self._fault(uplink.peer_info, now):
                await uplink.restart()
            else:
                self._logins.refusals.pop(str(partner), None)  # it would be shown with the next outage

    def _fault(self, peer: PeerInfo, now: datetime) -> str:
        """Return why the certificate of a peer is no longer valid; empty if it is valid."""
        certificate = certificate_of(peer)
        if certificate.not_after < now:
            cause, fault = "expired", "has expired"
        elif self._logins.is_withdrawn(certificate):
            cause, fault = "revoked", "was revoked"
        else:
            return ""
        log.warning("direct_link_ended", node=str(certificate.node), cause=cause)
        return fault

    def _check(self, check_name: Callable[[PeerInfo], None]) -> Callable[[PeerInfo], None]:
        """Return the check of a dialled peer: ``check_name``, and that its certificate was not withdrawn."""

        def check(peer: PeerInfo) -> None:
            check_name(peer)
            if self._logins.is_withdrawn(certificate := certificate_of(peer)):
                raise Revoked("The hub has withdrawn the certificate of this partner.", node=str(certificate.node))

        return check

    def outage(self, partner: Address) -> LinkOutage:
        """Return the state of the link with a partner while it is down."""
        uplink, state = self.uplinks.get(partner), self.status({}).get(str(partner))
        error = (state and state.last_error) or NOT_DIALLED
        down: LinkOutage = {"down_since": None, "next_attempt_at": None, "error": error}
        return down if uplink is None else {**uplink.outage, "error": error}

    def status(self, sent: Mapping[Address, int]) -> dict[str, DirectLink]:
        """Return the state of each partner's link. ``sent``: number of documents sent directly, by partner."""
        states: dict[str, DirectLink] = {}
        for node_id in self._partners:
            partner = partner_address(node_id)
            uplink, session = self.uplinks.get(partner), self._links.links.get(str(partner))
            is_dialled = uplink is not None and uplink.link is not None
            is_up = is_dialled or session is not None
            refusal = "" if is_up else self._logins.refusals.get(str(partner), "")
            errors = [uplink.last_error if uplink is not None else "", refusal]
            states[str(partner)] = DirectLink(
                link="up" if is_up else "down",
                dialled_by="this node" if is_dialled else "partner" if session is not None else "",
                last_error="; ".join(filter(None, errors)),
                sent=sent.get(partner, 0),
            )
        return states


def partner_address(node_id: str) -> Address:
    """Return the address of an institution's node."""
    return Address(NodeType.LOCAL, node_id)


def is_withdrawn(certificate: NodeCertificate, listed_pems: Sequence[str] | None) -> bool:
    """Return whether the hub has withdrawn a partner's certificate.

    ``listed_pems``: the partner's certificates in the hub's directory; empty if all were removed, None if there never
    was one. A certificate issued after all listed ones is a renewal that the directory has not reported yet.
    """
    if listed_pems is None:
        return False
    listed = [read_certificate(split(pem)[0].encode()) for pem in listed_pems]
    is_listed = any(entry.fingerprint == certificate.fingerprint for entry in listed)
    is_newer = bool(listed) and all(certificate.not_before > entry.not_before for entry in listed)
    return not is_listed and not is_newer


def partner_dial_configs(
    section: DirectSection, own: Address, partner: Address, tls: ssl.SSLContext
) -> list[DialConfig]:
    """Return how to dial each address of a partner; the dial checks the partner's certificate."""
    return [_partner_dial_config(url, own, partner, tls) for url in section.urls]


def _partner_dial_config(url: str, own: Address, partner: Address, tls: ssl.SSLContext) -> DialConfig:
    parts = urlsplit(url)
    config = DialConfig(
        product=PRODUCT, host=parts.hostname or "127.0.0.1", port=parts.port or 5671, virtual_host=UMX, user=str(own),
        tls=tls, check=must_be(partner),
    )  # fmt: skip
    return replace(config, connect_s=CONNECT_S)
