"""Figures of the datagrams exchanged with one peer since the start of the process, and the numbers in a report."""

from dataclasses import asdict, dataclass
from typing import NamedTuple


class Coverage(NamedTuple):
    """Numbers of documents of one direction that a report covers."""

    documents: int = 0  #: arrived (also those of ``full``) or lost
    lost: int = 0  #: documents that have not arrived
    full: int = 0  #: documents that have arrived and were dropped for lack of room

    def since(self, before: "Coverage") -> "Coverage":
        """Return the difference to ``before``. Its ``lost`` is below 0 if documents counted as lost have arrived."""
        return Coverage(*(number - earlier for number, earlier in zip(self, before, strict=True)))


@dataclass(slots=True)
class DatagramCounts:
    """Numbers of documents, of ignored datagrams, and of changes of the rate and of the peer's address."""

    sent: int = 0  #: documents that left as datagrams
    received: int = 0  #: documents that arrived as datagrams and were not dropped
    lost: int = 0  #: documents that the peer sent as datagrams and that have not arrived
    lost_there: int = 0  #: documents sent that have not arrived, as the peer reports
    full_there: int = 0  #: documents sent that have arrived and were dropped for lack of room, as the peer reports
    slowed: int = 0  #: halvings of the rate because of the documents that the peer reports as lost or dropped
    # Documents that were not sent as datagrams, by reason.
    too_large: int = 0  #: too large for a datagram
    not_open: int = 0  #: no datagrams pass
    too_fast: int = 0  #: more than the rate or the socket allows, or no route to the peer
    no_room: int = 0  #: those of the three numbers above that were dropped, because the connection had no room either
    # Ignored datagrams, by reason.
    forged: int = 0  #: not authentic
    repeated: int = 0  #: received before, or older than the replay window
    unreadable: int = 0  #: authentic, but with a content that cannot be read
    full: int = 0  #: documents of the peer dropped for lack of room, which do not count as lost
    # Neither documents nor ignored datagrams.
    moved: int = 0  #: changes of the peer's address

    def shown(self) -> dict[str, int]:
        """Return the figures, keyed by their names."""
        return asdict(self)
