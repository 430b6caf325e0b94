"""Certificates for the demo's institutions, as operators give them out: a token at the hub, the enrolment at the node.

Used by ``play`` with ``--secure``, after the hub has started and before the institutions do.
"""

from local_node.enrolment import HubAddress, enrol
from semq.app import Client
from semq.clock import SystemClock
from semq.config import load
from semq.demo.stage import Place
from semq.pki.certificate import NodeCertificate
from semq.service.identity import ring_of


async def give(hub: Client, hub_place: Place, place: Place) -> NodeCertificate:
    """Have one institution's node enrol, unless it did in an earlier performance in this folder."""
    ring = ring_of(load(place.config, {}))
    if ring.is_enrolled:
        return ring.identity().certificate
    told = await hub.request("nodes.token", {"node": place.name})
    address = HubAddress("127.0.0.1", hub_place.port)
    return await enrol(ring, address, told["fingerprint"], told["token"], SystemClock())
