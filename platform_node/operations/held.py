"""Operations on copies that the hub stores for institutions: list, count, refuse, resend.

``held.refuse`` and ``held.resend`` act on named copies, or on the next batch that matches a filter, in one transaction.
The answer follows the commit and has the beginning of the next batch. A tool can thus process millions of rows, show
its progress, and be interrupted and repeated at any time.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from semq.broker.services import SessionInfo
from semq.engine.hub.refusals import ActOnCopies
from semq.service.admin import AskedHandler, BadArguments, Handler, committed
from semq.service.message_names import ended, past
from semq.store.views.held import HeldFilter, count_held, held_numbers, list_held
from semq.store.views.names import find_messages
from semq.umx_t.status import Direction

if TYPE_CHECKING:
    from platform_node.node import HubNode

BATCH_MAX = 1000
ACTS = frozenset({"ids", "why", "only_copies", "everything"})  # arguments besides the filter


class HeldOperations:
    """The handlers."""

    def __init__(self, node: "HubNode") -> None:
        self._node = node

    def looking(self) -> dict[str, Handler]:
        """Operation | handler."""
        return {"held.list": self.copies, "held.count": self.count}

    def acting(self) -> dict[str, AskedHandler]:
        """Operation | handler that records the user."""
        return {"held.refuse": self.refuse, "held.resend": self.resend, "msg.resend": self.resend_one}

    async def copies(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List copies in the order of their storage."""
        return await self._node.store.read(list_held, read_filter(arguments))

    async def count(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Count copies by source and target."""
        counted = await self._node.store.read(count_held, read_filter(arguments))
        return [row | {"is_served": self._node.is_node(row["target"])} for row in counted]

    async def refuse(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse copies and notify their senders; a reason is required."""
        if not str(arguments.get("why") or "").strip():
            raise BadArguments("A refusal needs a reason: its sender is told (--why).")
        ids, more = await self._meant(arguments)
        only_copies = bool(arguments.get("only_copies"))
        refusing = self._node.engine.refusing
        return await _acted(session, arguments, more, lambda act: refusing.refuse(ids, act, only_copies=only_copies))

    async def resend(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Send copies again, now or as soon as their target is online."""
        ids, more = await self._meant(arguments)
        refusing = self._node.engine.refusing
        return await _acted(session, arguments, more, lambda act: refusing.resend(ids, act))

    async def resend_one(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Send one named copy again, like the operation of a local node."""
        told = await self.resend(session, {"ids": [arguments["id"]], "why": arguments.get("why")})
        return {"lk0": arguments["id"], **told}

    async def _meant(self, arguments: Mapping[str, Any]) -> tuple[Sequence[int], dict[str, Any]]:
        """Return the selected rows, and the arguments for the next batch."""
        if arguments.get("ids"):
            if any(arguments.get(name) is not None for name in FILTERS):
                raise BadArguments("Name copies or give a filter, not both.")
            if len(arguments["ids"]) > BATCH_MAX:
                raise BadArguments(f"At most {BATCH_MAX} at a time.")
            return [await self._named(str(name)) for name in arguments["ids"]], {"after": 0, "done": True}
        given = {name: value for name, value in arguments.items() if name not in ACTS}
        wanted = read_filter(given)
        if not (arguments.get("everything") or any(given.get(name) is not None for name in FILTERS)):
            raise BadArguments("Name copies, give a filter, or say that all are meant (everything).")
        ids = await self._node.store.read(held_numbers, wanted)
        return ids, {"after": ids[-1] if ids else wanted.after, "done": len(ids) < wanted.limit}

    async def _named(self, name: str) -> int:
        """Return the number of the copy with a name or an LK1. Raises NotThere, TooLate, BadArguments."""
        store, _, number = name.rpartition(".")
        is_lk1 = store == f"{self._node.home.semq_id}.{self._node.home.semq_db_id}" and number.isdecimal()
        rows = await self._node.store.read(find_messages, number if is_lk1 else name)
        held = [int(row["id"]) for row in rows if row.get("direction") == Direction.RELAYED.name]
        if is_lk1:  # a number may be an AppKey, too
            held = [one for one in held if one == int(number)]
        if not held:
            raise ended(await past(self._node.store, name))
        if len(held) > 1:
            raise BadArguments("The name fits several copies; give numbers or locators.", id=name, found=held[:5])
        return held[0]


FILTERS = ("target", "source", "before_ms", "type", "key", "parked")


def read_filter(arguments: Mapping[str, Any]) -> HeldFilter:
    """Read the filter of copies. Raises BadArguments, ValueError."""
    for name in arguments:
        if name not in HeldFilter.__dataclass_fields__:
            raise BadArguments(f"Copies are not chosen by {name}.")
    given = {name: value for name, value in arguments.items() if value is not None}
    empty = [name for name, value in given.items() if value == ""]
    if empty:  # an unset shell variable must not select everything
        raise BadArguments("A filter is empty: leave it out, or say what it fits.", empty=empty)
    wanted = msgspec.convert(given, HeldFilter, strict=False)
    if not (1 <= wanted.limit <= BATCH_MAX and 0 <= wanted.after < 1 << 63):
        raise BadArguments(f"A batch has 1 to {BATCH_MAX} rows.", limit=wanted.limit)
    return wanted


async def _acted(
    session: SessionInfo, arguments: Mapping[str, Any], more: dict[str, Any], post: Callable[[ActOnCopies], None]
) -> dict[str, Any]:
    """Post an act; return the results of its rows after the commit. Raises the errors of the store."""
    why = str(arguments.get("why") or "").strip()
    counts: Counter[str] = await committed(lambda done, failed: post(ActOnCopies(session.user, why, done, failed)))
    return {"counts": dict(counts), **more}
