"""What the hub holds for institutions, for administrators: look, refuse, send again (row Q19).

``held.refuse`` and ``held.resend`` act on copies that are named, or on the next batch of those that fit a filter, in
one transaction; they answer when it is committed, with where the next batch begins. So a tool works through millions of
rows, tells how far it has come, and may be killed and started again at any time. Called through ``semq.admin``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from semq.broker.services import SessionInfo
from semq.engine.hub.refusals import Act
from semq.service.admin import AskedHandler, BadArguments, Handler, committed
from semq.service.message_names import ended, past
from semq.store.views.held import HeldFilter, count_held, held_numbers, list_held
from semq.store.views.names import find_messages
from semq.umx_t.status import Direction

if TYPE_CHECKING:
    from platform_node.node import PlatformNode

BATCH_MAX = 1000
ACTS = frozenset({"ids", "why", "only_copies", "everything"})  # arguments beside the filter


class HeldOperations:
    """The handlers."""

    def __init__(self, node: "PlatformNode") -> None:
        self._node = node

    def looking(self) -> dict[str, Handler]:
        """Operation | handler."""
        return {"held.list": self.copies, "held.count": self.count}

    def acting(self) -> dict[str, AskedHandler]:
        """Operation | handler that notes who asks."""
        return {"held.refuse": self.refuse, "held.resend": self.resend, "msg.resend": self.resend_one}

    async def copies(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Copies, in the order in which they were stored."""
        return await self._node.store.read(list_held, read_filter(arguments))

    async def count(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """How many there are, by source and target."""
        counted = await self._node.store.read(count_held, read_filter(arguments))
        return [row | {"is_served": self._node.is_node(row["target"])} for row in counted]

    async def refuse(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give copies up and tell their senders, with the reason that has to be given."""
        if not str(arguments.get("why") or "").strip():
            raise BadArguments("A refusal needs a reason: its sender is told (--why).")
        ids, more = await self._meant(arguments)
        only_copies = bool(arguments.get("only_copies"))
        refusing = self._node.engine.refusing
        return await _acted(session, arguments, more, lambda act: refusing.refuse(ids, act, only_copies=only_copies))

    async def resend(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Send copies once more now, or as soon as their target is online."""
        ids, more = await self._meant(arguments)
        refusing = self._node.engine.refusing
        return await _acted(session, arguments, more, lambda act: refusing.resend(ids, act))

    async def resend_one(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same for the one that is named, as at a local node."""
        told = await self.resend(session, {"ids": [arguments["id"]], "why": arguments.get("why")})
        return {"lk0": arguments["id"], **told}

    async def _meant(self, arguments: Mapping[str, Any]) -> tuple[Sequence[int], dict[str, Any]]:
        """The rows that are meant, and what a tool needs to ask for the next batch."""
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
        """The number of the copy that a name means, or an LK1. Raises NotThere, TooLate, BadArguments."""
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
    """Which copies are meant. Raises BadArguments, ValueError."""
    for name in arguments:
        if name not in HeldFilter.__dataclass_fields__:
            raise BadArguments(f"Copies are not chosen by {name}.")
    given = {name: value for name, value in arguments.items() if value is not None}
    empty = [name for name, value in given.items() if value == ""]
    if empty:  # a variable of a shell that is not set must not mean everything
        raise BadArguments("A filter is empty: leave it out, or say what it fits.", empty=empty)
    wanted = msgspec.convert(given, HeldFilter, strict=False)
    if not (1 <= wanted.limit <= BATCH_MAX and 0 <= wanted.after < 1 << 63):
        raise BadArguments(f"A batch has 1 to {BATCH_MAX} rows.", limit=wanted.limit)
    return wanted


async def _acted(
    session: SessionInfo, arguments: Mapping[str, Any], more: dict[str, Any], post: Callable[[Act], None]
) -> dict[str, Any]:
    """Post an act; the fates of its rows, once they are committed. Raises what the store raises."""
    why = str(arguments.get("why") or "").strip()
    counts: Counter[str] = await committed(lambda done, failed: post(Act(session.user, why, done, failed)))
    return {"counts": dict(counts), **more}
