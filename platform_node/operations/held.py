"""Operations on copies that the hub stores for institutions: list, count, refuse, resend.

``held.refuse`` and ``held.resend`` act on named copies, or on the next batch that matches a filter, in one transaction.
The answer follows the commit and names the beginning of the next batch, so that a tool can process millions of rows.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict, replace

from platform_node.ports import OperatedHub
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.messages import MessageRow
from semq.engine.hub.copy_acts import ActOnCopies
from semq.service.admin import committed
from semq.service.errors import BadArguments
from semq.service.message_names import error_for_ended, past_record
from semq.service.operations.arguments import (
    INT64_MAX,
    WHY_MAX,
    Arguments,
    ByNameWhy,
    DataType,
    Institution,
    Key,
    Moment,
    Name,
    Why,
)
from semq.service.operations.operation import Caller, act, look
from semq.store.views.held import HeldFilter, HeldSums, count_held, held_numbers, list_held
from semq.store.views.names import find_messages
from semq.umx_t.status import Direction

BATCH_MAX = 1000
FILTERS = ("target", "source", "before_ms", "type", "key", "parked")
Filled = Meta(min_length=1)  # an unset shell variable must not select everything
BatchSize = Annotated[int, Meta(ge=1, le=BATCH_MAX, description="Number of copies in a batch.")]


class SelectCopies(Arguments, frozen=True, kw_only=True):
    """The selection of copies; an absent argument matches everything."""

    target: Annotated[Institution | None, Meta(description="Stored for this institution.")] = None
    source: Annotated[Institution | None, Meta(description="Sent by this institution.")] = None
    before_ms: Annotated[
        Moment | None, Meta(description="Stored before this time, in milliseconds since 1970 UTC.")
    ] = None
    type: Annotated[Annotated[DataType, Filled] | None, Meta(description="Data type of the AppKey.")] = None
    key: Annotated[Annotated[Key, Filled] | None, Meta(description="Beginning of the key of the AppKey.")] = None
    parked: Annotated[
        bool | None,
        Meta(description="true: only copies that were sent often and never recorded by the target; false: the others."),
    ] = None
    after: Annotated[
        int, Meta(ge=0, le=INT64_MAX, description="`after` of the previous answer; 0: begin at the first copy.")
    ] = 0
    limit: BatchSize = 500

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is given."""
        return any(getattr(self, name) is not None for name in FILTERS)

    def filter(self) -> HeldFilter:
        return HeldFilter(**{name: getattr(self, name) for name in (*FILTERS, "after", "limit")})


class ResendCopies(SelectCopies, frozen=True, kw_only=True):
    """Named copies, or the next batch of a selection, and a reason."""

    ids: Annotated[
        tuple[Name, ...],
        Meta(max_length=BATCH_MAX, description="Copies: short names, LK0, LK1, row numbers or AppKeys."),
    ] = ()
    everything: Annotated[
        bool, Meta(description="Select all copies. Required if neither names nor a filter is given.")
    ] = False
    why: Why = ""


class RefuseCopies(ResendCopies, frozen=True, kw_only=True):
    """Named copies, or the next batch of a selection, and a reason for their senders."""

    why: Annotated[str, Meta(max_length=WHY_MAX, pattern=r"\S", description="Reason; the senders receive it.")]
    only_copies: Annotated[bool, Meta(description="Also copies whose sender keeps no payload (@Ack2=0).")] = False


class HeldCount(HeldSums, frozen=True, kw_only=True):
    """The copies of one source for one target."""

    is_served: bool  #: the target is an institution of this hub


class NextBatch(OperationAnswer, frozen=True, kw_only=True):
    """The beginning of the next batch of an act."""

    after: int = 0  #: argument of the next batch
    done: bool = True  #: nothing is left


class CopiesActedOn(NextBatch, frozen=True, kw_only=True):
    """The numbers of copies of an act, by result, and the beginning of the next batch."""

    counts: dict[str, int]
    name: str | UnsetType = UNSET  #: of the one named copy
    lk0: str | UnsetType = UNSET


class HeldOperations:
    """The handlers."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node

    async def list_copies(self, arguments: SelectCopies) -> list[MessageRow]:
        """List copies in the order of their storage."""
        return await self._node.store.execute(list_held, arguments.filter())

    async def count(self, arguments: SelectCopies) -> list[HeldCount]:
        """Count copies by source and target; `after` and `limit` have no effect."""
        rows = await self._node.store.execute(count_held, arguments.filter())
        return [HeldCount(**asdict(row), is_served=self._node.is_node(row.target)) for row in rows]

    async def refuse(self, arguments: RefuseCopies, caller: Caller) -> CopiesActedOn:
        """Refuse copies and notify their senders, with the reason."""
        ids, next_batch = await self._selection(arguments)
        only_copies, copy_acts = arguments.only_copies, self._node.engine.copy_acts
        return await _act(
            caller, arguments.why, next_batch, lambda acts: copy_acts.refuse(ids, acts, only_copies=only_copies)
        )

    async def resend(self, arguments: ResendCopies, caller: Caller) -> CopiesActedOn:
        """Send copies again, now or as soon as their target is online."""
        ids, next_batch = await self._selection(arguments)
        return await self._resend(ids, next_batch, arguments.why, caller)

    async def resend_one(self, arguments: ByNameWhy, caller: Caller) -> CopiesActedOn:
        """Send one named copy again (msg.resend, which local nodes also have, for their own documents)."""
        copy = await self._find(arguments.id)
        result = await self._resend([int(copy["id"])], NextBatch(), arguments.why, caller)
        return replace(result, name=copy["name"], lk0=copy["lk0"])

    async def _resend(self, ids: Sequence[int], next_batch: NextBatch, why: str, caller: Caller) -> CopiesActedOn:
        copy_acts = self._node.engine.copy_acts
        return await _act(caller, why, next_batch, lambda acts: copy_acts.resend(ids, acts))

    async def _selection(self, arguments: ResendCopies) -> tuple[Sequence[int], NextBatch]:
        if arguments.ids:
            if arguments.everything or arguments.is_filtered:
                raise BadArguments("Name copies, or select them by a filter or `everything`, not both.")
            return [int((await self._find(name))["id"]) for name in arguments.ids], NextBatch()
        if not (arguments.everything or arguments.is_filtered):
            raise BadArguments("Name copies, give a filter, or select all (everything).")
        selection = arguments.filter()
        ids = await self._node.store.execute(held_numbers, selection)
        return ids, NextBatch(after=ids[-1] if ids else selection.after, done=len(ids) < selection.limit)

    async def _find(self, name: str) -> MessageRow:
        """Return the facts of the copy with a name or an LK1. Raises NotThere, TooLate, BadArguments."""
        store, _, number = name.rpartition(".")
        is_lk1 = store == f"{self._node.own_store.semq_id}.{self._node.own_store.semq_db_id}" and number.isdecimal()
        rows = await self._node.store.execute(find_messages, number if is_lk1 else name)
        held = [row for row in rows if row.get("direction") == Direction.RELAYED.name]
        if is_lk1:  # the number may also be a key
            held = [row for row in held if int(row["id"]) == int(number)]
        if not held:
            raise error_for_ended(await past_record(self._node.store, name))
        if len(held) > 1:
            found = [int(row["id"]) for row in held[:5]]
            raise BadArguments(
                "The name fits several copies; give an LK0, an LK1 or a row number.", id=name, found=found
            )
        return held[0]


HELD = (
    look("held.list", AccessRole.VIEWER, SelectCopies, HeldOperations.list_copies),
    look("held.count", AccessRole.VIEWER, SelectCopies, HeldOperations.count),
    act("held.refuse", AccessRole.OPERATOR, RefuseCopies, HeldOperations.refuse, names_documents=True),
    act("held.resend", AccessRole.OPERATOR, ResendCopies, HeldOperations.resend, names_documents=True),
    act("msg.resend", AccessRole.OPERATOR, ByNameWhy, HeldOperations.resend_one, names_documents=True),
)


async def _act(caller: Caller, why: str, next_batch: NextBatch, post: Callable[[ActOnCopies], None]) -> CopiesActedOn:
    counts: Counter[str] = await committed(
        lambda done, failed: post(ActOnCopies(caller.user, why.strip(), done, failed))
    )
    return CopiesActedOn(counts=dict(counts), after=next_batch.after, done=next_batch.done)
