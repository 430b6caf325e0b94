"""The two ends of datagrams: the end that is dialled (the hub; of a direct link the partner that listens) offers
channels at a UDP port; the end that dials takes them, from any port.

Made by nodes whose configuration has ``[datagrams]``.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from semq.clock import Clock, draw_secret
from semq.config.datagrams import DatagramsSection
from semq.datagrams.counts import DatagramCounts
from semq.datagrams.document import CarriedDocument
from semq.datagrams.errors import DatagramPortTaken
from semq.datagrams.port import DatagramPort
from semq.datagrams.session import DatagramTimes
from semq.errors import SemqError
from semq.service.datagrams.link import LinkDatagrams
from semq.umx_t.address import Address
from semq.umx_t.envelope import Packet
from semq.umx_t.records import ChannelRecord
from semq.umx_t.version import DATAGRAMS_PROPERTY

VERSION = 1
log = structlog.get_logger("semq.datagrams")


class DatagramEnd:
    """The common part of both ends: the socket, the links, and the figures of each peer."""

    def __init__(self, section: DatagramsSection, own: Address, clock: Clock) -> None:
        self._section = section
        self._own = own
        times = DatagramTimes(section.path_times, section.report_s, section.renew_s, bytes_per_s=section.bytes_per_s)
        self.port = DatagramPort(clock, times)
        self._counts: dict[str, DatagramCounts] = {}
        self._links: dict[str, LinkDatagrams] = {}

    def _begin(self, link: LinkDatagrams) -> LinkDatagrams:
        self._links[str(link.peer)] = link
        return link

    def _counts_of(self, peer: Address) -> DatagramCounts:
        return self._counts.setdefault(str(peer), DatagramCounts())

    def stop(self) -> None:
        """Close the socket."""
        self.port.close()

    def status(self) -> dict[str, Any]:
        """Return the port, and the state and figures of each peer."""
        return {
            "port": self.port.number,
            "strangers": self.port.strangers,
            "peers": {peer: link.session.status() for peer, link in sorted(self._links.items())},
        }


class OfferingEnd(DatagramEnd):
    """The end that listens."""

    async def start(self, host: str) -> None:
        """Listen, at ``host`` unless the configuration names another address. Raises DatagramPortTaken."""
        family, address = await _resolved(self._section.host or host, self._section.listening_port)
        self.port.open(family, address)
        log.info("datagrams_listen", host=address[0], port=self.port.number)

    def begin(
        self,
        peer: Address,
        properties: Mapping[str, Any],
        send: Callable[[Packet], None],
        take: Callable[[CarriedDocument], bool],
    ) -> LinkDatagrams | None:
        """Offer a channel on a new link; None if its ``properties`` of the login do not say that the peer takes one."""
        if properties.get(DATAGRAMS_PROPERTY) != VERSION or not self.port.is_open:
            return None
        link = LinkDatagrams(self.port, self._own, peer, self._counts_of(peer), send, take)
        section = self._section
        link.session.offer(draw_secret, section.advertised_host, section.advertised_port or self.port.number)
        return self._begin(link)


class TakingEnd(DatagramEnd):
    """The end that has dialled the link."""

    def __init__(self, section: DatagramsSection, own: Address, clock: Clock) -> None:
        super().__init__(section, own, clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def properties(self) -> Mapping[str, Any]:
        """Return the property of the login that says that channels are taken."""
        return {DATAGRAMS_PROPERTY: VERSION}

    def begin(
        self, peer: Address, host: str, send: Callable[[Packet], None], take: Callable[[CarriedDocument], bool]
    ) -> LinkDatagrams:
        """Return the datagrams of a new link to a peer at ``host``."""

        def accept(link: LinkDatagrams, record: ChannelRecord) -> None:
            task = asyncio.get_running_loop().create_task(self._accept(link, record, record.host or host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return self._begin(LinkDatagrams(self.port, self._own, peer, self._counts_of(peer), send, take, accept))

    async def _accept(self, link: LinkDatagrams, record: ChannelRecord, host: str) -> None:
        try:
            family, address = await _resolved(host, record.port)
            if self.port.is_open and self.port.family != family:  # the hub has an address of another kind now
                self.port.close()
            if not self.port.is_open:
                own = self._section.host or ("::" if family == socket.AF_INET6 else "0.0.0.0")
                self.port.open(*await _resolved(own, self._section.port or 0))
        except SemqError as error:
            log.warning("datagrams_not_possible", error=str(error))
            return
        if self._links.get(str(link.peer)) is link:
            link.session.accept(record, address)


def status_of(ends: Iterable[DatagramEnd]) -> dict[str, Any]:
    """Return the state of several ends of one node; of two channels with a peer, that of the open one."""
    found: dict[str, Any] = {"port": None, "strangers": 0, "peers": {}}
    for status in (end.status() for end in ends):
        found["port"] = found["port"] or status["port"]
        found["strangers"] += status["strangers"]
        for peer, facts in status["peers"].items():
            if peer not in found["peers"] or facts["state"] == "open":
                found["peers"][peer] = facts
    return found


async def _resolved(host: str, port: int) -> tuple[int, Any]:
    """Return the family and the address of a host. Raises DatagramPortTaken."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise DatagramPortTaken("The address for datagrams is unknown.", host=host, fault=str(error)) from error
    return found[0][0], found[0][4]
