"""Checks of the connections to partners with direct links: address, TLS, login.

The check logs in to the virtual host of enrolment, because a second direct link would end the running node's link. An
unreachable partner is a warning only: documents for this partner wait, or go through the hub.
"""

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from local_node.link.direct import partner_address, partner_dial_configs
from local_node.link.single_request import CANNOT_ANSWER, VIRTUAL_HOST
from semq.amqp.errors import AccessRefused, InvalidPath, NotAllowed
from semq.cli.checkup.daemon_thread import in_daemon_thread
from semq.cli.checkup.finding import OK, WARNING, Finding
from semq.cli.checkup.hub_link import tls_of
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.transport.dialer import DialConfig, dial
from semq.transport.turn import Turn
from semq.umx_t.address import Address

# Seconds: less than the time limit of `doctor` for this part; more than an older node takes to refuse the virtual host.
CONNECT_S = 8.0
UNREACHED = (
    "Check the address in [direct] and the network, that the partner's node runs, and that both nodes trust the"
    " authorities of each other."
)
REFUSED = (
    "The partner must name this institution in [direct], and the hub must not have revoked this node's certificate; the"
    " log of the partner has partner_refused or partner_revoked."
)


async def check(settings: Settings) -> AsyncIterator[Finding]:
    """Check each address of each partner that this node dials.

    No link is checked if the node's own certificate or trusted authorities have a fault, which ``identity`` reports.
    """
    partners = {partner_address(node_id): section for node_id, section in settings.direct.items() if section.urls}
    if not partners:
        return
    try:
        tls = await in_daemon_thread(lambda: tls_of(settings))
    except SemqError:
        return
    own = settings.address
    checks = [
        _finding_of(replace(way, virtual_host=VIRTUAL_HOST, connect_s=CONNECT_S), own, partner)
        for partner, section in partners.items()
        for way in partner_dial_configs(section, own, partner, tls)
    ]
    for finding in await asyncio.gather(*checks):
        yield finding


async def _finding_of(config: DialConfig, own: Address, partner: Address) -> Finding:
    check, where = f"way to {partner}", f"{config.host}:{config.port}"
    try:
        link = await dial(config, SystemClock(), Turn())
    except (NotAllowed, InvalidPath):  # a partner of an older version, which has accepted the login
        return Finding(check, OK, f"{where} accepts the login of {own}")
    except AccessRefused as error:
        return Finding(check, WARNING, f"{where} refuses the login of {own}: {error.text}", REFUSED)
    except CANNOT_ANSWER as error:
        advice = "The partner's node stops, or could not check the login: see its log, and repeat."
        return Finding(check, WARNING, f"{where}: {error}", advice)
    except SemqError as error:
        return Finding(check, WARNING, f"{where}: {error}", UNREACHED)
    await link.close(1.0)
    return Finding(check, OK, f"{where} accepts the login of {own}")
