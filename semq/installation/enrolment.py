"""The first certificate of a node: by a token of the hub and the fingerprint of its authority, or without a hub by a
common authority."""

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


async def enrolled(hub: NodeProcess, node: NodeProcess, *, again: bool = False) -> NodeCertificate:
    """Return the certificate of a node that does not run; ask the hub for it unless there is one, or if ``again``.

    Raises SemqError or OSError.
    """
    ring = ring_of(load(node.place.config, {}))
    if ring.is_enrolled and not again:
        return ring.identity().certificate
    async with Client(hub.url, patience_s=10.0) as client:
        token = await client.request("nodes.token", {"node": node.place.node_id})
    address = HubAddress("127.0.0.1", hub.port)
    return await enrol(ring, address, token["fingerprint"], token["token"], SystemClock())


def certified(places: Iterable[NodePlace]) -> None:
    """Give each of these nodes, which have no hub, a certificate of one new authority that all of them trust."""
    now = SystemClock().wall()
    common = create_authority("the institutions", now)
    for place in places:
        ring = ring_of(load(place.config, {}))
        key = key_of_request(new_request(ring.next_key(), ring.node))
        made = common.issue(key, ring.node, now, CERTIFICATE_DAYS, ("127.0.0.1",))
        write_safely(ring.trust_path, common.pem)
        ring.store_certificate(made.pem, TrustStore([common.certificate]), now)
        ring.rotate(now)
