"""The first certificate of a node, by a token of the hub and the fingerprint of its authority."""

from local_node.enrolment import HubAddress, enrol
from semq.app import Client
from semq.clock import SystemClock
from semq.config import load
from semq.installation.process import NodeProcess
from semq.pki.certificate import NodeCertificate
from semq.service.credentials.identity import ring_of


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
