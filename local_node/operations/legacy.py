"""Operations of the import from an older SEMQ (``semq.legacy``): note received messages, and ask about a sent one.

A message of an older SEMQ has incarnation 0 in its locator. Each message found by the receiver's import becomes a line
of the ledger; the sender's import asks for this line as ``msg.trace`` does.
"""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from local_node.operations.trace import Traces
from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.engine.core import note_lines
from semq.engine.errors import NotThere
from semq.service.admin import committed
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments, Institution
from semq.service.operations.operation import Caller, act
from semq.service.story import IMPORTED
from semq.store.rows import Event, LedgerLine, Side
from semq.store.views import messages
from semq.umx_t.address import parse_address
from semq.umx_t.locator import LK0, LK0_MAX, parse_lk0

LK0S_MAX = 1000
OldLocator = Annotated[str, Meta(min_length=1, max_length=LK0_MAX, description="Locator in the older SEMQ.")]


class AskImported(Arguments, frozen=True, kw_only=True):
    """One message that this institution has sent."""

    lk0: OldLocator
    target: Institution


class NoteReceived(Arguments, frozen=True, kw_only=True):
    """Messages that this institution has received."""

    lk0s: Annotated[
        tuple[OldLocator, ...], Meta(min_length=1, max_length=LK0S_MAX, description="Messages of an older SEMQ.")
    ]


class ImportedState(OperationAnswer, frozen=True, kw_only=True):
    """Whether a message of an older SEMQ has arrived."""

    received: bool | None  #: null: the receiver has not answered
    why: str  #: the reason without an answer


class NotedMessages(OperationAnswer, frozen=True, kw_only=True):
    """Numbers of messages."""

    noted: int
    known: int  #: noted before


class LegacyOperations:
    """The handlers."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def ask(self, arguments: AskImported, caller: Caller) -> ImportedState:
        """Ask the receiver whether a message of an older SEMQ has arrived; `received` is null without an answer."""
        lk0, target = _old_locator(arguments.lk0), parse_address(arguments.target).node
        if lk0.node != self._node.address:
            raise BadArguments("Another institution has sent this document.", lk0=str(lk0))
        if target == self._node.address:
            return ImportedState(received=False, why="")
        lines, unanswered = await Traces(self._node).ask_parties(str(lk0), str(target))
        if any(line.get("side") == Side.RECEIVER.name.lower() for line in lines):
            return ImportedState(received=True, why="")
        why = next((party["why"] for party in unanswered), "")
        is_unknown = not unanswered or NotThere.code in why
        return ImportedState(received=False if is_unknown else None, why=why)

    async def received(self, arguments: NoteReceived, caller: Caller) -> NotedMessages:
        """Note in the ledger that messages of an older SEMQ have arrived; lines written before stay unchanged."""
        lk0s = list(dict.fromkeys(map(_old_locator, arguments.lk0s)))
        new = [lk0 for lk0 in lk0s if not await self._node.store.execute(messages.trace, str(lk0))]
        at, own = self._node.engine.core.now_ms(), str(self._node.address)
        lines = [LedgerLine(at, Side.RECEIVER, Event.OPERATOR, str(lk0), own, detail=IMPORTED) for lk0 in new]

        def post(done: Callable[[None], None], failed: Callable[[Exception], None]) -> None:
            self._node.engine.core.post(note_lines(lines, lambda: done(None)), failed=failed)

        if lines:
            await committed(post)
        return NotedMessages(noted=len(lines), known=len(lk0s) - len(lines))


def _old_locator(text: str) -> LK0:
    lk0 = parse_lk0(text)
    if lk0.inc:
        raise BadArguments("This is not the locator of a message of an older SEMQ.", lk0=text)
    return lk0


LEGACY = (
    act("import.ask", AccessRole.OPERATOR, AskImported, LegacyOperations.ask, "`semq import`"),
    act("import.received", AccessRole.OPERATOR, NoteReceived, LegacyOperations.received, "`semq import`"),
)
