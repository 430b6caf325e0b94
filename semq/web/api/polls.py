"""Polls: requests for documents of an inbox while nothing has arrived for them.

The node counts each delivery before it makes it, and parks a document that was returned after some of them. So a poll
takes no document that cannot be answered: it ends when its client disconnects. After an answer for which there was no
space, all polls of the inbox end, and the next ones reserve that much space before they take a document.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.requests import Request

from semq.app.values import Document
from semq.errors import SemqError, Unavailable
from semq.transport.spool import SpooledBody
from semq.web.errors import BadRequest
from semq.web.transport.bodies import ByteBudget


class AnswerSpace:
    """The memory and disk space that is reserved for the documents of one answer."""

    def __init__(self, memory: ByteBudget, disk: ByteBudget) -> None:
        self._memory, self._disk = memory, disk
        self._in_memory = self._on_disk = 0

    @property
    def is_reserved(self) -> bool:
        return self._in_memory + self._on_disk > 0

    def reserve(self, in_memory: int, on_disk: int) -> None:
        """Reserve so many bytes instead of the former ones. Raises BodiesFull, SpoolFull."""
        self._on_disk = self._disk.change_now(self._on_disk, on_disk)
        self._in_memory = self._memory.change_now(self._in_memory, in_memory)

    def release(self) -> None:
        self.reserve(0, 0)


class Polls:
    """The polls of all inboxes, which are named by their users."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[_Poll]] = {}
        self._lacking: dict[str, tuple[int, int]] = {}  #: inbox | bytes in memory and on disk that an answer lacked

    @asynccontextmanager
    async def waiting(self, user: str, request: Request, space: AnswerSpace) -> AsyncIterator[None]:
        """Run a block of code that takes documents from an inbox; cancel it if the poll ends.

        If an answer of this inbox lacked space, the block has ``space`` of that size. Raises BadRequest if the client
        disconnects, BodiesFull, SpoolFull.
        """
        if user in self._lacking:
            space.reserve(*self._lacking[user])
        poll = _Poll()
        self._waiting.setdefault(user, set()).add(poll)
        watch = asyncio.get_running_loop().create_task(poll.end_with_client(request))
        try:
            async with poll.limit:
                yield
        except TimeoutError:
            if poll.error is None:
                raise
            raise poll.error from None
        finally:
            watch.cancel()
            self._waiting[user].discard(poll)
            if not self._waiting[user]:
                del self._waiting[user]

    def reserve(self, user: str, documents: Sequence[Document], space: AnswerSpace) -> None:
        """Reserve the space for documents of an inbox; end its polls if there is too little.

        Raises BodiesFull, SpoolFull.
        """
        if not documents:
            self._lacking.pop(user, None)  # not after a success: documents that lacked space may still wait
        on_disk = sum(document.size for document in documents if isinstance(document.body, SpooledBody))
        in_memory = sum(document.size for document in documents) - on_disk
        try:
            space.reserve(in_memory, on_disk)
        except Unavailable as error:
            self._lacking[user] = in_memory, on_disk
            for poll in self._waiting.get(user, ()):
                poll.end(error)
            raise


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
