"""Polls: requests that take documents from an inbox, or wait for them.

The node counts every delivery of a document, and parks a document that was returned too often. So a poll must not take
documents that cannot be sent to its client:

- A poll ends when its client disconnects.
- If an answer finds no space, all polls of the inbox end. Until the first document of that answer has found space,
  later polls reserve this space before they take a document.
- Until a poll finds no document, polls take at most one document more than have found space since this shortage. If
  they took all documents of the answer again, another shortage would cost each of them a delivery.
- If the audit line about an answer cannot be written, all polls end. Until a line can be written, each poll writes one
  before it takes a document.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import chain

from msgspec import Struct
from starlette.requests import Request

from semq.app.values import Document
from semq.errors import SemqError, Unavailable
from semq.transport.spool import SpooledBody
from semq.web.errors import BadRequest
from semq.web.transport.bodies import Reservation


class AnswerSpace:
    """The memory and disk space that is reserved for the documents of one answer."""

    def __init__(self, memory: Reservation, disk: Reservation) -> None:
        self._memory, self._disk = memory, disk

    @property
    def is_reserved(self) -> bool:
        return self._memory.size + self._disk.size > 0

    def reserve(self, in_memory: int, on_disk: int) -> None:
        """Reserve these numbers of bytes instead of the present ones. Raises BodiesFull, SpoolFull."""
        self._disk.change(on_disk)
        self._memory.change(in_memory)

    def release(self) -> None:
        self.reserve(0, 0)


class _Shortage(Struct):
    """A lack of space for an answer, which limits the next polls of its inbox."""

    first: str  #: LK0 of the first document of that answer
    in_memory: int  #: bytes to reserve before a poll takes a document, until ``first`` has found space
    on_disk: int
    answered: int = 0  #: documents that have found space since then


class Polls:
    """The polls of all inboxes, which are named by their users."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[_Poll]] = {}
        self._shortages: dict[str, _Shortage] = {}  #: by inbox
        self.is_audited = True  #: whether the last audit line of a poll was written

    @asynccontextmanager
    async def waiting(self, user: str, at_most: int, request: Request, space: AnswerSpace) -> AsyncIterator[int]:
        """Run a block of code that takes documents from an inbox; cancel it if the poll ends.

        Yield how many documents it may take, up to ``at_most``. If an earlier answer found no space, ``space`` is
        reserved for its first document. Raises BadRequest if the client disconnects, BodiesFull, SpoolFull.
        """
        shortage = self._shortages.get(user)
        if shortage is not None:
            space.reserve(shortage.in_memory, shortage.on_disk)
            at_most = min(at_most, 1 + shortage.answered)
        poll = _Poll()
        self._waiting.setdefault(user, set()).add(poll)
        watch = asyncio.get_running_loop().create_task(poll.end_with_client(request))
        try:
            async with poll.limit:
                yield at_most
        except TimeoutError:
            if poll.error is None:
                raise
            raise poll.error from None
        finally:
            watch.cancel()
            self._waiting[user].discard(poll)
            if not self._waiting[user]:
                del self._waiting[user]

    @contextmanager
    def auditing(self) -> Iterator[None]:
        """Run a block of code that writes an audit line; end all polls if it fails."""
        try:
            yield
        except SemqError as error:
            self.is_audited = False
            for poll in chain.from_iterable(self._waiting.values()):
                poll.end(error)
            raise
        self.is_audited = True

    def reserve(self, user: str, documents: Sequence[Document], space: AnswerSpace) -> None:
        """Reserve the space for documents of an inbox; end its polls if there is too little.

        Raises BodiesFull, SpoolFull.
        """
        if not documents:
            self._shortages.pop(user, None)
        try:
            space.reserve(*_sizes(documents))
        except Unavailable as error:
            self._shortages[user] = _Shortage(documents[0].lk0, *_sizes(documents[:1]))
            for poll in self._waiting.get(user, ()):
                poll.end(error)
            raise
        shortage = self._shortages.get(user)
        if shortage is not None:
            shortage.answered += len(documents)
            if any(document.lk0 == shortage.first for document in documents):
                shortage.in_memory = shortage.on_disk = 0


def _sizes(documents: Sequence[Document]) -> tuple[int, int]:
    """Return the bytes of documents in memory and on disk."""
    on_disk = sum(document.size for document in documents if isinstance(document.body, SpooledBody))
    return sum(document.size for document in documents) - on_disk, on_disk


class _Poll:
    """A poll in progress."""

    def __init__(self) -> None:
        self.limit = asyncio.timeout(None)  # ``end`` sets the time
        self.error: SemqError | None = None  #: why it has ended early

    def end(self, error: SemqError) -> None:
        if self.error is None:
            self.error = error
            self.limit.reschedule(asyncio.get_running_loop().time())

    async def end_with_client(self, request: Request) -> None:
        """Wait until the client disconnects, then end the poll. The rest of the request's body is not used."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.end(BadRequest("The client disconnected before a document had arrived."))
