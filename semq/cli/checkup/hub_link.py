"""Checks of the connection from a local node to its hub: name, port, TLS, login.

The check logs in as the node, but to the virtual host for enrolment: a second link of the node would end the first.
"""

import socket
import ssl
from collections.abc import AsyncIterator

from local_node.link.hub_addresses import ways_to_hub
from local_node.link.hub_request import VIRTUAL_HOST
from semq.amqp.errors import AccessRefused, AmqpError, InvalidPath, NotAllowed
from semq.cli.checkup.finding import FAILING, OK, Finding, failing
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.pki.tls import client_context
from semq.service.credentials.identity import ring_of, trust_of
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import DialFailed
from semq.transport.turn import Turn
from semq.umx_t.address import Address

CHECK = "way to the hub"

# class of the error | advice; the first row that matches counts
ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "The hub's certificate must be from an authority in trust.pem and name the host of hub.url (tls.names there).",
    ),
    (ssl.SSLError, "The hub has no TLS on this port, or refuses this node's certificate: see its log."),
    (socket.gaierror, "The name of the hub cannot be resolved: check hub.url and DNS."),
    (ConnectionRefusedError, "No program listens there: check that the hub runs, and the port."),
    (TimeoutError, "No answer: a firewall blocks the connection, or the hub hangs."),
)


async def check(settings: Settings) -> AsyncIterator[Finding]:
    """Check the connection to the hub. At a hub nothing is checked."""
    hub = settings.hub
    if hub is None:
        return
    try:
        ring = ring_of(settings)
        if hub.is_tls:
            ring.identity()  # first, so that a node that has not enrolled reports that
        tls = client_context(trust_of(settings, ring), ring, settings.tls.minimum) if hub.is_tls else None
    except SemqError as error:
        yield failing(CHECK, error)
        return
    for config in ways_to_hub(hub, settings.address, tls, VIRTUAL_HOST):
        yield await _dialled(config, settings.address)


async def _dialled(config: DialConfig, address: Address) -> Finding:
    """Return the finding on one address of the hub."""
    where = f"{config.host}:{config.port}"
    try:
        link = await dial(config, SystemClock(), Turn())
    except DialFailed as error:
        cause = error.__cause__
        advice = next((words for kind, words in ADVICE if isinstance(cause, kind)), error.remedy)
        return Finding(CHECK, FAILING, f"{where}: {cause!r}", advice)
    except (NotAllowed, InvalidPath):  # a hub without an authority has no such virtual host; the login was accepted
        return Finding(CHECK, OK, f"{where} lets {address} in")
    except AccessRefused as error:
        advice = (
            "Check the certificate (`semq cert list` at the hub), or hub.password here and nodes.ID.password there."
        )
        return Finding(CHECK, FAILING, f"{where} does not let {address} in: {error.text}", advice)
    except AmqpError as error:
        return Finding(CHECK, FAILING, f"{where}: {error}", "Check that a SEMQ hub listens there.")
    except SemqError as error:
        return failing(CHECK, error)
    detail = f"{where} lets {address} in" + (f", {link.link.peer.tls}" if config.tls else "")
    await link.close(1.0)
    return Finding(CHECK, OK, detail)
