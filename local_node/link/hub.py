"""The hub of a local node: the link to it, or what stands in its place at a node without a hub."""

import ssl

from local_node.enrolment import HubAddress
from local_node.link.direct import DirectLinks
from local_node.link.uplink import DialledLink, Uplink
from semq.answers.messages import LinkOutage
from semq.answers.status import HubLink
from semq.service.datagrams.ends import DiallingEnd
from semq.umx_t.address import parse_address


class HubUplink(Uplink):
    """The link to the hub."""

    def status(self) -> HubLink:
        link, error = self.link, self.last_error
        return HubLink(link="up", node=str(link.peer), last_error=error) if link else HubLink(last_error=error)

    def outage_of(self, node: str) -> LinkOutage:
        """Return the state of the link on which documents for a node leave, while it is down."""
        return self.outage

    def address(self, tls_minimum: str) -> HubAddress:
        """Return the address in use."""
        config = self._addresses.current
        return HubAddress(config.host, config.port, tls_minimum)


class NoHub:
    """The place of the link at a node that has only the partners of its configuration."""

    link: DialledLink | None = None
    datagrams: DiallingEnd | None = None
    is_revoked = False

    def __init__(self, direct: DirectLinks) -> None:
        self._direct = direct

    def status(self) -> None:
        """There is nothing to show."""

    def outage_of(self, node: str) -> LinkOutage:
        return self._direct.outage(parse_address(node))

    def dial_config_for(self, virtual_host: str) -> None:
        """There is nothing to dial."""

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Do nothing, as in ``start``, ``restart`` and ``stop``."""

    def start(self) -> None: ...

    async def restart(self) -> None: ...

    async def stop(self) -> None: ...


HubPort = HubUplink | NoHub
