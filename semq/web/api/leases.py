"""Leases: documents that programs have received by HTTP and have not settled yet.

The time of a lease begins at the end of the answer that contains the document. When a lease expires, the document goes
back to its queue and is delivered again. If the client disconnects during the answer, this happens at once.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import structlog
from msgspec import Struct

from semq.app.errors import AlreadyGone
from semq.app.pull import PulledDocuments
from semq.app.values import Document
from semq.errors import SemqError
from semq.web.access.secret import new_secret
from semq.web.errors import LeaseGone, TooManyRequests

log = structlog.get_logger("semq.web")


class DocumentLease(Struct, eq=False):
    """A document that is leased to a program."""

    id: str
    owner: str  #: key of the visitor
    document: Document
    pulled: PulledDocuments
    seconds: float
    timer: asyncio.TimerHandle | None = None  #: None until the end of the answer


class Leases:
    """All leases, keyed by id."""

    def __init__(self, at_most: int) -> None:
        """``at_most``: largest number of documents that one owner may lease."""
        self._at_most = at_most
        self._open: dict[str, DocumentLease] = {}
        self._counts: dict[str, int] = {}
        self._reserved: Counter[str] = Counter()  #: leases for documents of polls in progress, by owner
        self._returns: set[asyncio.Task[None]] = set()

    def has(self, owner: str) -> bool:
        return owner in self._counts

    @contextmanager
    def reserved(self, owner: str, at_most: int) -> Iterator[int]:
        """Reserve leases for the documents of a poll; yield their number, up to ``at_most``.

        Documents beyond the limit would go back, which counts as a delivery. Raises TooManyRequests if none is free.
        """
        free = self._at_most - self._counts.get(owner, 0) - self._reserved[owner]
        if free <= 0:
            text = "Too many documents are received and not acknowledged, or requested by other polls."
            raise TooManyRequests(text, at_most=self._at_most)
        number = min(at_most, free)
        self._reserved[owner] += number
        try:
            yield number
        finally:
            self._reserved[owner] -= number
            self._reserved = +self._reserved  # without the entries that are 0

    def add(self, owner: str, pulled: PulledDocuments, seconds: float) -> list[DocumentLease]:
        """Lease documents to an owner for ``seconds``, which begin with ``start_timers``."""
        leases = [DocumentLease(new_secret(), owner, document, pulled, seconds) for document in pulled.documents]
        for lease in leases:
            self._open[lease.id] = lease
            self._counts[owner] = self._counts.get(owner, 0) + 1
        return leases

    def start_timers(self, leases: Iterable[DocumentLease]) -> None:
        """Start the timers of leases that are not settled."""
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

    def give_up(self, leases: Iterable[DocumentLease]) -> None:
        """Return documents to their queue."""
        for lease in leases:
            if lease.id in self._open:
                self._return_soon(lease)

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
        log.warning("lease_expired", lk0=lease.document.lk0, owner=lease.owner)
        self._return_soon(lease)

    def _return_soon(self, lease: DocumentLease) -> None:
        self._remove(lease)
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
