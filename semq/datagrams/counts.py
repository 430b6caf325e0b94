"""Figures of the datagrams exchanged with one peer, since the start of the process."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class DatagramCounts:
    """Numbers of documents, and of datagrams that were ignored."""

    sent: int = 0  #: documents that left as datagrams
    received: int = 0  #: documents that arrived as datagrams
    lost: int = 0  #: documents that the peer sent as datagrams and that have not arrived
    lost_there: int = 0  #: documents sent that have not arrived, as the peer reports
    #: documents that went by the connection: too large; no datagrams pass; more than the rate or the socket takes
    too_large: int = 0
    not_open: int = 0
    too_fast: int = 0
    no_room: int = 0  #: number of these that were dropped, because the connection had no room either
    #: datagrams ignored: not made by the peer; received before; unreadable; beyond what may wait
    forged: int = 0
    repeated: int = 0
    unreadable: int = 0
    full: int = 0
    moved: int = 0  #: changes of the peer's address

    def shown(self) -> dict[str, int]:
        """Return the figures by name."""
        return asdict(self)
