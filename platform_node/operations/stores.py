"""Operations on the hub's stores: list them, and declare one lost for good (``semq.engine.hub.stores``)."""

from typing import Annotated, Any

import structlog
from msgspec import Meta

from platform_node.operated import OperatedHub
from semq.access_rights import AccessRole
from semq.service.admin import committed
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Caller, act, look
from semq.store.identities import retired_stores

NUMBER_MAX = 0x7FFF_FFFF
WHY_MAX = 500
log = structlog.get_logger("semq.platform")


class RetireStore(Arguments, frozen=True, kw_only=True):
    """A store that is lost, and why."""

    store: Annotated[
        str,
        Meta(
            max_length=21,
            pattern=r"^[0-9]{1,10}\.[0-9]{1,10}$",
            description="Store: its two numbers, the first two of the locator of a copy (1.2).",
        ),
    ]
    why: Annotated[str, Meta(max_length=WHY_MAX, pattern=r"\S", description="Why it is lost for good; stored with it.")]


class StoreOperations:
    """The handlers."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node

    async def list(self, arguments: Arguments) -> list[dict[str, Any]]:
        """List the hub's own store, the retired ones, and unknown ones that nodes have asked for."""
        stores = self._node.engine.holding.stores
        held = sum(self._node.engine.holding.held.values())
        rows: list[dict[str, Any]] = [{"store": _text(stores.home), "state": "in use", "held": held}]
        rows += [
            {"store": _text(one.name), "state": "retired", "by": one.retired_by, "why": one.why, "at": at}
            for one, at in await self._node.store.read(retired_stores)
        ]
        missed = sorted(stores.missed.items())
        return rows + [{"store": _text(name), "state": "not here", "asked": count} for name, count in missed]

    async def retire(self, arguments: RetireStore, caller: Caller) -> dict[str, Any]:
        """Declare a store lost: its messages are sent again, or end as their receivers' ledgers say."""
        name, why = _name(arguments.store), arguments.why.strip()
        stores = self._node.engine.holding.stores
        was_retired: bool = await committed(lambda done, failed: stores.retire(name, caller.user, why, done, failed))
        log.warning("store_retired", store=_text(name), by=caller.user, why=why)
        return {"store": _text(name), "was_retired": was_retired}


STORES = (
    look("stores.list", AccessRole.VIEWER, Arguments, StoreOperations.list),
    act("stores.retire", AccessRole.ADMIN, RetireStore, StoreOperations.retire),
)


def _name(text: str) -> tuple[int, int]:
    """Return the two numbers of a store. Raises BadArguments."""
    first, second = map(int, text.split("."))
    if not (1 <= first <= NUMBER_MAX and 1 <= second <= NUMBER_MAX):
        raise BadArguments(f"The numbers of a store are 1 to {NUMBER_MAX}.", store=text)
    return first, second


def _text(name: tuple[int, int]) -> str:
    return f"{name[0]}.{name[1]}"
