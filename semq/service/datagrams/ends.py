"""The two ends of datagrams beside a link. The listening end offers channels at a UDP port; the dialling end uses them.

The listening end is the hub or, on a direct link, the partner that listens. The dialling end may use any port.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from semq.answers.status import DatagramCounts, DatagramStatus, PathState
from semq.clock import Clock, draw_secret
from semq.config.datagrams import DatagramsSection
from semq.datagrams.document import CarriedDocument
from semq.datagrams.errors import DatagramAddressUnusable
from semq.datagrams.port import DatagramPort
from semq.datagrams.session import DatagramTimes
from semq.errors import SemqError
from semq.service.datagrams.link import LinkDatagrams
from semq.umx_t.address import Address
from semq.umx_t.envelope import Packet
from semq.umx_t.records import ChannelRecord
from semq.umx_t.version import DATAGRAMS_PROPERTY

VERSION = 1  # value of the login property of a dialling end that uses channels
log = structlog.get_logger("semq.datagrams")


class DatagramEnd:
    """The common part of both ends."""

    def __init__(self, section: DatagramsSection, own: Address, clock: Clock) -> None:
        self._section = section
        self._own = own
        times = DatagramTimes(section.path_times, section.report_s, section.renew_s, bytes_per_s=section.bytes_per_s)
        self.port = DatagramPort(clock, times)
        self._counts: dict[str, DatagramCounts] = {}
        self._links: dict[str, LinkDatagrams] = {}

    def _register(self, link: LinkDatagrams) -> LinkDatagrams:
        self._links[str(link.peer)] = link
        return link

    def _counts_of(self, peer: Address) -> DatagramCounts:
        return self._counts.setdefault(str(peer), DatagramCounts())

    def stop(self) -> None:
        self.port.close()

    def status(self) -> DatagramStatus:
        return DatagramStatus(
            port=self.port.number,
            strangers=self.port.strangers,
            peers={peer: link.session.status() for peer, link in sorted(self._links.items())},
        )


class OfferingEnd(DatagramEnd):
    """The end that listens and offers channels."""

    async def start(self, host: str) -> None:
        """Listen at the configured address, or at ``host`` if none is configured. Raises DatagramAddressUnusable."""
        family, address = await _resolve(self._section.host or host, self._section.listening_port)
        self.port.open(family, address)
        log.info("datagrams_listen", host=address[0], port=self.port.number)

    def begin(
        self,
        peer: Address,
        properties: Mapping[str, object],
        send_packet: Callable[[Packet], None],
        on_document: Callable[[CarriedDocument], bool],
    ) -> LinkDatagrams | None:
        """Offer a channel on a new link, and return its datagrams; None if the port is closed or the peer uses no
        channels.

        ``properties``: those of the peer's login.
        """
        if properties.get(DATAGRAMS_PROPERTY) != VERSION or not self.port.is_open:
            return None
        link = LinkDatagrams(self.port, self._own, peer, self._counts_of(peer), send_packet, on_document)
        section = self._section
        link.session.offer(draw_secret, section.advertised_host, section.advertised_port or self.port.number)
        return self._register(link)


class DiallingEnd(DatagramEnd):
    """The end that has dialled the link and uses the channels that its peer offers."""

    def __init__(self, section: DatagramsSection, own: Address, clock: Clock) -> None:
        super().__init__(section, own, clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        super().stop()

    def properties(self) -> Mapping[str, object]:
        return {DATAGRAMS_PROPERTY: VERSION}

    def begin(
        self,
        peer: Address,
        host: str,
        send_packet: Callable[[Packet], None],
        on_document: Callable[[CarriedDocument], bool],
    ) -> LinkDatagrams:
        """Return the datagrams of a new link to a peer at ``host``."""

        newest: ChannelRecord | None = None  # the newest offer, until it has been accepted

        def on_offer(link: LinkDatagrams, record: ChannelRecord) -> None:
            nonlocal newest
            is_accepting, newest = newest is not None, record
            if not is_accepting:
                task = asyncio.get_running_loop().create_task(accept_newest(link))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        async def accept_newest(link: LinkDatagrams) -> None:
            """Accept one offer after the other, and of the offers that arrive meanwhile only the last. The peer chooses
            names and addresses: many lookups at once would stop the lookups for other links."""
            nonlocal newest
            accepted: ChannelRecord | None = None
            try:
                while newest is not None and newest is not accepted:
                    accepted = newest
                    await self._accept(link, accepted, accepted.host or host)
            finally:
                newest = None

        counts = self._counts_of(peer)
        return self._register(LinkDatagrams(self.port, self._own, peer, counts, send_packet, on_document, on_offer))

    async def _accept(self, link: LinkDatagrams, record: ChannelRecord, host: str) -> None:
        try:
            family, address = await _resolve(host, record.port)
            own_host = self._section.host or ("::" if family == socket.AF_INET6 else "0.0.0.0")
            own_address = await _resolve(own_host, self._section.port or 0)
            # No await from here on: offers of two links may arrive at the same time, and share one socket.
            if self.port.is_open and self.port.family != family:  # IPv4 or IPv6
                self.port.close()
            if not self.port.is_open:
                self.port.open(*own_address)
        except SemqError as error:
            log.warning("datagrams_not_possible", error=str(error))
            link.session.decline(str(error))
            return
        if self._links.get(str(link.peer)) is link:
            link.session.accept(record, address)


def status_of(ends: Iterable[DatagramEnd]) -> DatagramStatus:
    """Return the combined state of all ends of one node. Of two channels with a peer, the open one is shown."""
    states = [end.status() for end in ends]
    peers: dict[str, PathState] = {}
    for state in states:
        peers |= {peer: path for peer, path in state.peers.items() if peer not in peers or path.state == "open"}
    port = next((state.port for state in states if state.port), None)
    return DatagramStatus(port=port, strangers=sum(state.strangers for state in states), peers=peers)


async def _resolve(host: str, port: int) -> tuple[int, Any]:
    """Return the address family and the socket address of a host. Raises DatagramAddressUnusable."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the name is too long
        raise DatagramAddressUnusable("The name of a host cannot be resolved.", host=host, fault=str(error)) from error
    family, _, _, _, address = infos[0]
    return family, address
