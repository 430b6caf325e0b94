"""Documents that programs have received by HTTP and not settled yet: each has an owner, and a time from the end of the
answer that brings it.

When the time is over, the document goes back to its queue and is delivered again. When this process or the connection
ends, the node does the same.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from semq.app.errors import AlreadyGone
from semq.app.pull import PulledDocuments
from semq.app.values import Document
from semq.errors import SemqError
from semq.web.access.secret import new_secret
from semq.web.errors import LeaseGone, TooManyRequests

log = structlog.get_logger("semq.web")


@dataclass(slots=True, eq=False)
class DocumentLease:
    """One document that is leased to a program."""

    id: str
    owner: str
    document: Document
    pulled: PulledDocuments
    seconds: float
    timer: asyncio.TimerHandle | None = None


class Leases:
    """All leases, by id."""

    def __init__(self, at_most: int) -> None:
        """``at_most``: documents of one owner."""
        self._at_most = at_most
        self._open: dict[str, DocumentLease] = {}
        self._counts: dict[str, int] = {}
        self._returns: set[asyncio.Task[None]] = set()

    def has(self, owner: str) -> bool:
        """Whether an owner has documents."""
        return owner in self._counts

    def room(self, owner: str) -> int:
        """Return how many documents an owner may receive now. Raises TooManyRequests if none."""
        room = self._at_most - self._counts.get(owner, 0)
        if room <= 0:
            raise TooManyRequests("Too many documents are received and not acknowledged.", at_most=self._at_most)
        return room

    def add(self, owner: str, pulled: PulledDocuments, seconds: float) -> list[DocumentLease]:
        """Give documents to an owner, for a time that begins with ``begin``."""
        made = [DocumentLease(new_secret(), owner, document, pulled, seconds) for document in pulled.documents]
        for lease in made:
            self._open[lease.id] = lease
        self._counts[owner] = self._counts.get(owner, 0) + len(made)
        return made

    def begin(self, leases: Iterable[DocumentLease]) -> None:
        """Begin the time of documents that were sent to their owner, unless they are settled already."""
        loop = asyncio.get_running_loop()
        for lease in leases:
            if lease.id in self._open:
                lease.timer = loop.call_later(lease.seconds, self._expire, lease)

    async def settle(self, owner: str, id_: str, act: str) -> Document:
        """Acknowledge, requeue or park a document. Raises LeaseGone, NodeUnreachable."""
        lease = self._open.get(id_)
        if lease is None or lease.owner != owner:
            raise LeaseGone
        self._remove(lease)
        await self._apply(lease, act)
        return lease.document

    async def close(self) -> None:
        """Drop all leases; the node delivers the documents again when the connection ends."""
        for lease in list(self._open.values()):
            self._remove(lease)
        await asyncio.gather(*self._returns, return_exceptions=True)

    async def _apply(self, lease: DocumentLease, act: str) -> None:
        try:
            match act:
                case "ack":
                    await lease.document.ack()
                case "park":
                    await lease.document.reject()
                case _:
                    await lease.document.requeue()
        except AlreadyGone as error:
            raise LeaseGone(lk0=lease.document.lk0) from error
        await lease.pulled.note_settled()

    def _expire(self, lease: DocumentLease) -> None:
        self._remove(lease)
        log.warning("lease_expired", lk0=lease.document.lk0, owner=lease.owner)
        task = asyncio.get_running_loop().create_task(self._return(lease))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _return(self, lease: DocumentLease) -> None:
        try:
            await self._apply(lease, "requeue")
        except SemqError as error:
            log.info("lease_ended_with_connection", lk0=lease.document.lk0, error=str(error))

    def _remove(self, lease: DocumentLease) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
        del self._open[lease.id]
        self._counts[lease.owner] -= 1
        if not self._counts[lease.owner]:
            del self._counts[lease.owner]
