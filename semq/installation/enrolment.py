"""The first certificates of nodes: by tokens of the hub, or without a hub by a common authority."""

from collections.abc import Iterable

from local_node.enrolment import HubAddress, enrol
from semq.app import Client
from semq.clock import SystemClock
from semq.config import load
from semq.installation.configuration import NodePlace
from semq.installation.process import NodeProcess
from semq.pki.authority import create_authority, key_of_request, new_request
from semq.pki.certificate import NodeCertificate
from semq.pki.trust import TrustStore
from semq.service.credentials.identity import ring_of
from semq.store.files import write_safely

CERTIFICATE_DAYS = 90.0


async def ensure_enrolled(hub: NodeProcess, node: NodeProcess, *, again: bool = False) -> NodeCertificate:
    """Return the certificate of a stopped node; enrol the node if it has none, or if ``again``.

    Raises SemqError, OSError.
    """
    ring = ring_of(load(node.place.config, {}, node.place.institution))
    if ring.is_enrolled and not again:
        return ring.identity().certificate
    async with Client(hub.url, patience_s=10.0) as client:
        token = await client.request("nodes.token", {"node": node.place.node_id})
    address = HubAddress("127.0.0.1", hub.port)
    return await enrol(ring, address, token["fingerprint"], token["token"], SystemClock())


def install_certificates(places: Iterable[NodePlace]) -> None:
    """Create an authority for nodes without a hub. Each node trusts the authority and gets a certificate from it."""
    now = SystemClock().wall()
    authority = create_authority("the institutions", now)
    for place in places:
        ring = ring_of(load(place.config, {}))
        key = key_of_request(new_request(ring.next_key(), ring.node))
        certificate = authority.issue(key, ring.node, now, CERTIFICATE_DAYS, ("127.0.0.1",))
        write_safely(ring.trust_path, authority.pem)
        ring.store_certificate(certificate.pem, TrustStore([authority.certificate]), now)
        ring.rotate(now)
