"""The places of a listening port: how many sockets may be open, in total and from one network.

If all places are taken, a new socket gets the place of one that keeps the node waiting: of the network with the most
such sockets, the one that has waited longest. So silent or slow sockets of a few networks keep out no other clients.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from semq.transport.peer import network_of

log = logging.getLogger(__name__)

LOG_S = 1.0  # shortest time between two lines about refused and displaced sockets


class PlaceHolder(Protocol):
    """An open socket, or one in its TLS handshake."""

    @property
    def waits_since(self) -> float | None:
        """Time (s, monotonic) since which the node waits for the client; None while it does not."""

    def displace(self) -> None:
        """Close the socket at once."""


class PlaceLimits(NamedTuple):
    """Largest numbers of sockets."""

    total: int
    per_network: int
    surplus: int = 0  #: sockets above ``total`` that are accepted for an answer, if none of the others waits


class Places:
    """The places of one port."""

    def __init__(self, limits: Callable[[], PlaceLimits]) -> None:
        """``limits`` returns the present limits."""
        self.refused = 0
        self.displaced = 0
        self._limits = limits
        self._networks: dict[PlaceHolder, str] = {}
        self._per_network: Counter[str] = Counter()
        self._logged_at = -LOG_S

    def __len__(self) -> int:
        return len(self._networks)

    def have_room(self, address: str) -> bool:
        """Whether a new socket of this address may take a place; for it, another socket may lose its place."""
        limits, network = self._limits(), network_of(address)
        if self._per_network[network] >= limits.per_network:
            fault = f"{self._per_network[network]} are open or in a TLS handshake"
        elif len(self) < limits.total or self._displace() or len(self) < limits.total + limits.surplus:
            return True
        else:
            fault = f"{len(self)} of all networks are open or in a TLS handshake"
        self.refused += 1
        self._report("refused a connection from %s: %s", address, fault)
        return False

    def take(self, holder: PlaceHolder, address: str) -> None:
        self._networks[holder] = network_of(address)
        self._per_network[self._networks[holder]] += 1

    def leave(self, holder: PlaceHolder) -> None:
        """Free a place; no effect if the holder has none."""
        network = self._networks.pop(holder, None)
        if network is not None:
            self._per_network[network] -= 1
            if not self._per_network[network]:
                del self._per_network[network]

    def _displace(self) -> bool:
        """Take the place of a socket that keeps the node waiting. Return False if there is none."""
        waiting = [(since, holder) for holder in self._networks if (since := holder.waits_since) is not None]
        if not waiting:
            return False
        numbers = Counter(self._networks[holder] for _, holder in waiting)
        _, holder = min(waiting, key=lambda row: (-numbers[self._networks[row[1]]], row[0]))
        network = self._networks[holder]
        self.leave(holder)
        self.displaced += 1
        self._report("all places are taken: closed a connection from %s, where %d wait", network, numbers[network])
        holder.displace()
        return True

    def _report(self, text: str, *facts: object) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_S:
            self._logged_at = now
            log.warning("%s (%d refused, %d closed so far)", text % facts, self.refused, self.displaced)
