"""Figures of the datagrams exchanged with one peer, since the start of the process, and what a report covers."""

from dataclasses import asdict, dataclass
from typing import NamedTuple


class Coverage(NamedTuple):
    """Documents of one direction that were received or lost."""

    documents: int = 0
    lost: int = 0  #: of these, on the way
    full: int = 0  #: of these, dropped by the receiver for lack of room

    def since(self, before: "Coverage") -> "Coverage":
        """Return the difference. Its ``lost`` is less than 0 if documents were late."""
        return Coverage(*(now - then for now, then in zip(self, before, strict=True)))


@dataclass(slots=True)
class DatagramCounts:
    """Numbers of documents, and of datagrams that were ignored."""

    sent: int = 0  #: documents that left as datagrams
    received: int = 0  #: documents that arrived as datagrams
    lost: int = 0  #: documents that the peer sent as datagrams and that have not arrived
    lost_there: int = 0  #: documents sent that have not arrived, as the peer reports
    full_there: int = 0  #: documents sent that have arrived and were dropped for lack of room, as the peer reports
    slowed: int = 0  #: halvings of the rate because of such losses
    #: documents that went by the connection: too large; no datagrams pass; more than the rate or the socket takes
    too_large: int = 0
    not_open: int = 0
    too_fast: int = 0
    no_room: int = 0  #: number of these that were dropped, because the connection had no room either
    #: datagrams ignored: not made by the peer; received before; unreadable; without room (not counted as lost)
    forged: int = 0
    repeated: int = 0
    unreadable: int = 0
    full: int = 0
    moved: int = 0  #: changes of the peer's address

    def shown(self) -> dict[str, int]:
        """Return the figures by name."""
        return asdict(self)
