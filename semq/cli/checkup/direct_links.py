"""Checks of the ways to partners with direct links, by the certificate of the node.

The login is at the virtual host of questions, so that the sessions of the running node are not touched; a partner of an
older version refuses this virtual host after the login. A partner that is not reached is a warning only: documents for
it wait, or go by the hub.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from local_node.link.direct import partner_address, ways_to_partner
from local_node.link.hub_request import VIRTUAL_HOST
from semq.amqp.errors import AccessRefused, InvalidPath, NotAllowed
from semq.cli.checkup.finding import OK, WARNING, Finding
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.pki.tls import client_context
from semq.service.credentials.identity import ring_of, trust_of
from semq.transport.dialer import DialConfig, dial
from semq.transport.turn import Turn
from semq.umx_t.address import Address

CONNECT_S = 8.0  # less than the time limit of a check; an older version delays the refusal of the virtual host
AWAY = (
    "Check that its node runs, the address in [direct], the network, and that both nodes trust each other's authority."
)
REFUSED = "Its configuration must name this institution in [direct]; its log has partner_refused or partner_revoked."


async def check(settings: Settings) -> AsyncIterator[Finding]:
    """Check each address of each partner that this node dials. A fault of the own certificate is left to
    ``identity``.
    """
    dialled = {partner_address(node_id): section for node_id, section in settings.direct.items() if section.urls}
    if not dialled:
        return
    try:
        ring = ring_of(settings)
        ring.identity()
        tls = client_context(trust_of(settings, ring), ring, settings.tls.minimum)
    except SemqError:
        return
    own = settings.address
    checks = [
        _dialled(replace(way, virtual_host=VIRTUAL_HOST, connect_s=CONNECT_S), own, partner)
        for partner, section in dialled.items()
        for way in ways_to_partner(section, own, partner, tls)
    ]
    for finding in await asyncio.gather(*checks):
        yield finding


async def _dialled(config: DialConfig, own: Address, partner: Address) -> Finding:
    """Return the finding on one address of a partner."""
    check, where = f"way to {partner}", f"{config.host}:{config.port}"
    try:
        link = await dial(config, SystemClock(), Turn())
    except (NotAllowed, InvalidPath):  # a partner of an older version: the login was accepted
        return Finding(check, OK, f"{where} lets {own} in")
    except AccessRefused as error:
        return Finding(check, WARNING, f"{where} does not let {own} in: {error.text}", REFUSED)
    except SemqError as error:
        return Finding(check, WARNING, f"{where}: {error}", AWAY)
    await link.close(1.0)
    return Finding(check, OK, f"{where} lets {own} in")
