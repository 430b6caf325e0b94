"""Checks of the connection from a local node to its hub: name, port, TLS, login.

The check logs in as the node, but to the virtual host of enrolment: a second link of the node would end the first.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

from local_node.link.hub_addresses import hub_dial_configs
from local_node.link.single_request import CANNOT_ANSWER, VIRTUAL_HOST
from semq.amqp.errors import AccessRefused, AmqpError, InvalidPath, NotAllowed
from semq.cli.checkup.daemon_thread import in_daemon_thread
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
REFUSED_CERTIFICATE = (
    "The hub has revoked the certificate, or does not serve this node: see its log, and `semq cert list` there. After a"
    " revocation enrol again, with a token from `semq hub nodes token` at the hub."
)
REFUSED_PASSWORD = (
    "Compare node.id and hub.password here with nodes.ID and its password at the hub, which may not know this id."
)
REFUSALS = (REFUSED_CERTIFICATE, REFUSED_PASSWORD)  # advice if the hub refuses this node

# Class of the cause of DialFailed | advice; the first matching row applies.
ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "The hub needs a certificate of an authority in trust.pem, with the host of hub.url as a name (its tls.names).",
    ),
    (ssl.SSLError, "The hub has no TLS on this port, or refuses this node's certificate: see the log of the hub."),
    (socket.gaierror, "The name of the hub cannot be resolved: check hub.url and DNS."),
    (ConnectionRefusedError, "No program listens on this port: check the port, and that the hub runs."),
    (TimeoutError, "No answer: a firewall blocks the connection, or the hub hangs."),
)


async def check(settings: Settings) -> AsyncIterator[Finding]:
    """Check each address of the hub; no findings without [hub]."""
    hub = settings.hub
    if hub is None:
        return
    try:
        tls = await in_daemon_thread(lambda: tls_of(settings)) if hub.is_tls else None
    except SemqError as error:
        yield failing(CHECK, error)
        return
    configs = hub_dial_configs(hub, settings.address, tls, VIRTUAL_HOST)
    for finding in await asyncio.gather(*(_finding_of(config, settings.address) for config in configs)):
        yield finding


def tls_of(settings: Settings) -> ssl.SSLContext:
    """Return the TLS context of the node for its links. Raises the errors of its key files."""
    ring = ring_of(settings)
    ring.identity()  # before `trust_of`: without enrolment both calls fail, and only this one names the cause
    return client_context(trust_of(settings, ring), ring, settings.tls.minimum)


async def _finding_of(config: DialConfig, address: Address) -> Finding:
    where = f"{config.host}:{config.port}"
    try:
        link = await dial(config, SystemClock(), Turn())
    except DialFailed as error:
        cause = error.__cause__
        advice = next((text for kind, text in ADVICE if isinstance(cause, kind)), error.remedy)
        return Finding(CHECK, FAILING, f"{where}: {cause!r}", advice)
    except (NotAllowed, InvalidPath):  # a hub without an authority has no such virtual host, but has accepted the login
        return Finding(CHECK, OK, f"{where} accepts the login of {address}")
    except AccessRefused as error:
        advice = REFUSED_CERTIFICATE if config.tls else REFUSED_PASSWORD
        return Finding(CHECK, FAILING, f"{where} refuses the login of {address}: {error.text}", advice)
    except CANNOT_ANSWER as error:
        advice = "The hub stops, or could not check the login: see its log, and repeat."
        return Finding(CHECK, FAILING, f"{where}: {error}", advice)
    except AmqpError as error:
        return Finding(CHECK, FAILING, f"{where}: {error}", "Check that a SEMQ hub listens at this address.")
    except SemqError as error:
        return failing(CHECK, error)
    detail = f"{where} accepts the login of {address}" + (f", {link.link.peer.tls}" if config.tls else "")
    await link.close(1.0)
    return Finding(CHECK, OK, detail)
