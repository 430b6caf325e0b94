"""The section ``[datagrams]``: the channel over UDP for documents with ``@Reliable=0``."""

from typing import Annotated

from pydantic import Field

from semq.config.sections import Port, Seconds, Section
from semq.datagrams.path import PathTimes

DATAGRAM_PORT = 5671


class DatagramsSection(Section):
    """Datagrams (UDP). Without this section, documents with @Reliable=0 travel over the connection."""

    host: Annotated[str, Field(max_length=253)] = ""
    """address to listen on; default: amqp.host at the hub and with direct links, otherwise any address"""
    port: Port | None = None
    """UDP port; default: 5671 at the hub and with direct links, otherwise any free port"""
    advertised_host: Annotated[str, Field(pattern=r"^[0-9A-Za-z._:-]{0,253}$")] = ""
    """hub, direct links: host to which peers send datagrams; default: the host that they have dialled"""
    advertised_port: Port | None = None
    """hub, direct links: port to which peers send datagrams, if a router changes it; default: port"""
    bytes_per_s: Annotated[int, Field(ge=10_000)] = 12_500_000
    """largest rate of datagrams to one peer, lower after losses; documents beyond it use the connection, or are
    dropped if it has no room"""
    answer_s: Seconds = 1.0
    """time after which a probe without an answer counts as lost"""
    keep_s: Seconds = 15.0
    """interval of probes, which keep the path open: routers close a path without traffic after 30 s or more"""
    search_s: Seconds = 600.0
    """interval of probes with larger datagrams"""
    report_s: Seconds = 1.0
    """interval of reports about losses while documents travel; each report may change the rate"""
    renew_s: Seconds = 3600.0
    """lifetime of the keys of a channel"""

    @property
    def listening_port(self) -> int:
        """The UDP port of a hub or of a node with direct links."""
        return DATAGRAM_PORT if self.port is None else self.port

    @property
    def path_times(self) -> PathTimes:
        return PathTimes(self.answer_s, self.keep_s, self.search_s)
