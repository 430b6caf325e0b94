"""Enrolment of a node at the hub (``platform_node.enrolment``): the first certificate for a token, then renewals.

The operator receives the fingerprint of the hub's authority together with the token. The hub sends the authority's
certificate in the greeting of a first, unauthenticated connection. If the fingerprint matches, a second connection
trusts this authority only, and the token is sent there.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from local_node.errors import NoSuchFingerprint, RefusedByPeer
from local_node.link.single_request import PATIENCE_S, VIRTUAL_HOST, request
from semq.amqp.connection.client import ClientConnection
from semq.amqp.errors import AccessRefused, AmqpError
from semq.amqp.limits import ConnectionLimits
from semq.clock import Clock
from semq.errors import BadInput
from semq.pki.authority import new_request
from semq.pki.certificate import NodeCertificate
from semq.pki.errors import KeyRevoked, TokenRefused
from semq.pki.slots import KeyRing
from semq.pki.tls import VERSIONS, client_context, load_pair
from semq.pki.trust import TrustStore, plain_fingerprint
from semq.service.credentials.identity import must_be_hub
from semq.store.files import write_safely
from semq.transport.dialer import PRODUCT, DialConfig
from semq.transport.errors import DialFailed

AUTHORITY = "authority"  # server property with the certificate of the authority
GREETING_MAX = 64 * 1024  # bytes


class HubAddress(msgspec.Struct, frozen=True):
    """The address of the hub, and the oldest accepted version of TLS."""

    host: str
    port: int
    tls_minimum: str = "1.3"

    @classmethod
    def of(cls, text: str, tls_minimum: str = "1.3") -> "HubAddress":
        """Read ``host:port`` or a URL; the default port is 5671. Raises BadInput."""
        try:
            parts = urlsplit(text if "//" in text else f"//{text}")
            if not parts.hostname:
                raise ValueError("no host")
            return cls(parts.hostname, parts.port or 5671, tls_minimum)
        except ValueError as error:
            raise BadInput("The address of the hub is not HOST:PORT.", fault=str(error)) from None


async def enrol(ring: KeyRing, hub: HubAddress, fingerprint: str, token: str, clock: Clock) -> NodeCertificate:
    """Get the first certificate, and put it into slot active.

    An interrupted enrolment can be repeated with the same token: the key waits in slot next, and the hub issues the
    same certificate for the same key. Raises NoSuchFingerprint, TokenRefused, RefusedByPeer, DialFailed, Unavailable,
    KeyRefused, TrustUnreadable, Untrusted.
    """
    trust = await _authority(hub, fingerprint)
    context, user = client_context(trust, None, hub.tls_minimum), f"enroll/{ring.node}"

    async def send_request(request: str) -> Mapping[str, object]:
        try:
            return await _send(hub, context, clock, "enroll", {"token": token, "request": request}, user, token)
        except RefusedByPeer as error:
            # The token is also the password of the login: a refused login means that it is not valid for this node.
            is_login = isinstance(error.__cause__, AccessRefused)
            if is_login or error.facts.get("reason") == TokenRefused.code:
                raise TokenRefused(
                    "The hub does not accept the token for this institution: it is unknown, used, or too old.",
                    node=str(ring.node),
                    hub=f"{hub.host}:{hub.port}",
                ) from error
            raise

    answer = await _request_certificate(ring, clock, send_request)
    trust = TrustStore.from_pem(str(answer["trust"]).encode())
    certificate = ring.store_certificate(str(answer["certificate"]).encode(), trust, clock.wall())
    write_safely(ring.trust_path, trust.pem)
    await _test_login(ring, hub, trust, certificate, clock)
    return ring.rotate(clock.wall())


async def renew(ring: KeyRing, hub: HubAddress, trust: TrustStore, clock: Clock) -> NodeCertificate:
    """Get the next certificate, put it into slot next, and test it; the caller rotates. Can be repeated after a crash.

    Raises RefusedByPeer, DialFailed, Unavailable, Untrusted, KeyRefused.
    """
    key_id = ring.slots().next
    untested = ring.certificate(key_id) if key_id else None
    if untested is not None and untested.not_after > clock.wall():
        try:
            await _test_login(ring, hub, trust, untested, clock)
        except RefusedByPeer:
            pass  # the certificate may have been revoked
        else:
            return untested

    async def send_request(request: str) -> Mapping[str, object]:
        return await _send(hub, client_context(trust, ring, hub.tls_minimum), clock, "renew", {"request": request})

    answer = await _request_certificate(ring, clock, send_request)
    certificate = ring.store_certificate(str(answer["certificate"]).encode(), trust, clock.wall())
    await _test_login(ring, hub, trust, certificate, clock)
    return certificate


async def _request_certificate(
    ring: KeyRing, clock: Clock, send_request: Callable[[str], Awaitable[Mapping[str, object]]]
) -> Mapping[str, object]:
    """Return the hub's answer for the key in slot next; if the hub has revoked that key, for a new key."""
    try:
        return await send_request(new_request(ring.next_key(), ring.node).decode("ascii"))
    except RefusedByPeer as error:
        if error.facts.get("reason") != KeyRevoked.code:
            raise
    ring.retire_next(clock.wall())
    return await send_request(new_request(ring.next_key(), ring.node).decode("ascii"))


async def _test_login(
    ring: KeyRing, hub: HubAddress, trust: TrustStore, certificate: NodeCertificate, clock: Clock
) -> None:
    """Log in with a new certificate, before the node depends on it. Raises RefusedByPeer, DialFailed, Unavailable."""
    context = client_context(trust, None, hub.tls_minimum)
    key_id = certificate.key_id
    load_pair(context, ring.certificate_path(key_id), ring.key_path(key_id), ring.passphrase())
    answer = await _send(hub, context, clock, "who", {})
    if answer.get("node") != str(ring.node):
        raise RefusedByPeer(
            "The hub reads the name of another node in this certificate.", found=str(answer.get("node"))[:80]
        )


async def _authority(hub: HubAddress, fingerprint: str) -> TrustStore:
    """Return the hub's authority. Raises DialFailed; NoSuchFingerprint for another fingerprint; TrustUnreadable if the
    greeting has none.
    """
    greeting = await _greeting(hub)
    pem = greeting.get(AUTHORITY)
    trust = TrustStore.from_pem(pem.encode() if isinstance(pem, str) else b"")
    expected = plain_fingerprint(fingerprint)
    if len(trust.authorities) != 1 or trust.fingerprints != [expected]:
        # Show only the beginning: operators could copy a whole fingerprint into the command without comparing it.
        raise NoSuchFingerprint(wanted=expected[:80], found=[f"{found[:8]}…" for found in trust.fingerprints[:3]])
    return trust


async def _greeting(hub: HubAddress) -> Mapping[str, object]:
    """Return the server properties of connection.start, from an unauthenticated connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = VERSIONS[hub.tls_minimum]
    machine = ClientConnection(ConnectionLimits())
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(hub.host, hub.port, ssl=context, server_hostname=hub.host)
            try:
                machine.start(0.0)
                for piece in machine.take_output():  # only the protocol header
                    writer.write(bytes(piece))
                received = 0
                while not machine.peer_properties and received < GREETING_MAX:
                    data = await reader.read(4096)
                    if not data:
                        break
                    received += len(data)
                    machine.receive(data, 0.0)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, AmqpError) as error:
        raise DialFailed(host=hub.host, port=hub.port, cause=repr(error)) from error
    return machine.peer_properties


async def _send(
    hub: HubAddress,
    context: ssl.SSLContext,
    clock: Clock,
    operation: str,
    arguments: Mapping[str, object],
    user: str = "",
    password: str | None = None,
) -> Mapping[str, object]:
    config = DialConfig(
        hub.host, hub.port, VIRTUAL_HOST, user, password, tls=context, limits=ConnectionLimits(heartbeat=10),
        product=PRODUCT, check=must_be_hub,
    )  # fmt: skip
    return await request(config, clock, "semq.enroll", operation, arguments)
