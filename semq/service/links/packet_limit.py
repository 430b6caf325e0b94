"""The limit for packets that a hub passes on to a node: documents have credit, packets of other nodes have none.

Packets beyond the limit are dropped: rows and timers repair this loss like any other. The hub's own records have no
limit.
"""

UNSENT_MAX = 16 << 20  # with more bytes of waiting output, all packets of other nodes are dropped
# So that one node cannot use up UNSENT_MAX, the packets of each node may have SHARE_MAX bytes until the waiting output
# has fallen to UNSENT_LOW.
UNSENT_LOW = 2 << 20
SHARE_MAX = 2 << 20


class PacketLimit:
    """The limit for one session, to a node that may read slowly."""

    def __init__(self) -> None:
        self._shares: dict[str, int] = {}  #: bytes since the output was at most UNSENT_LOW, by sending node

    def admits(self, source: str, size: int, unsent: int) -> bool:
        """Return whether a packet of ``size`` bytes may be passed on, and count it.

        ``unsent``: bytes of waiting output, without those of documents, which have credit.
        """
        if unsent <= UNSENT_LOW:
            self._shares.clear()
        share = self._shares.get(source, 0) + size
        if unsent > UNSENT_MAX or share > SHARE_MAX:
            return False
        self._shares[source] = share
        return True
