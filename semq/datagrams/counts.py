"""Figures of the datagrams exchanged with one peer since the start of the process, and the numbers in a report."""

from typing import NamedTuple


class Coverage(NamedTuple):
    """Numbers of documents of one direction that a report covers."""

    documents: int = 0  #: arrived (also those of ``full``) or lost
    lost: int = 0  #: documents that have not arrived
    full: int = 0  #: documents that have arrived and were dropped for lack of room

    def since(self, before: "Coverage") -> "Coverage":
        """Return the difference to ``before``. Its ``lost`` is below 0 if documents counted as lost have arrived."""
        return Coverage(*(number - earlier for number, earlier in zip(self, before, strict=True)))
