"""The platform's stores, for administrators of the hub: which there are, and the word that one is lost for good.

Called through ``semq.admin``; what a retired store means stands in ``semq.engine.hub.stores``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from semq.broker.services import SessionInfo
from semq.service.admin import AskedHandler, BadArguments, Handler, committed
from semq.store.identities import retired_stores

if TYPE_CHECKING:
    from platform_node.node import HubNode

NUMBER_MAX = 0x7FFF_FFFF
WHY_MAX = 500
log = structlog.get_logger("semq.platform")


class StoreOperations:
    """The handlers."""

    def __init__(self, node: "HubNode") -> None:
        self._node = node

    def looking(self) -> dict[str, Handler]:
        """Operation | handler."""
        return {"stores.list": self.list}

    def acting(self) -> dict[str, AskedHandler]:
        """Operation | handler that notes who asks."""
        return {"stores.retire": self.retire}

    async def list(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The hub's own store, the retired ones, and those that nodes ask for in vain."""
        stores = self._node.engine.holding.stores
        held = sum(self._node.engine.holding.held.values())
        rows: list[dict[str, Any]] = [{"store": _text(stores.home), "state": "in use", "held": held}]
        rows += [
            {"store": _text(one.name), "state": "retired", "by": one.retired_by, "why": one.why, "at": at}
            for one, at in await self._node.store.read(retired_stores)
        ]
        missed = sorted(stores.missed.items())
        return rows + [{"store": _text(name), "state": "not here", "asked": count} for name, count in missed]

    async def retire(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A store will not come back: what it held is sent again, or ends as its receivers' ledgers say."""
        name = _name(str(arguments.get("store") or ""))
        why = str(arguments.get("why") or "").strip()
        if not why:
            raise BadArguments("Say why the store will not come back (--why): it is kept beside the store.")
        stores = self._node.engine.holding.stores
        was_retired: bool = await committed(
            lambda done, failed: stores.retire(name, session.user, why[:WHY_MAX], done, failed)
        )
        log.warning("store_retired", store=_text(name), by=session.user, why=why[:WHY_MAX])
        return {"store": _text(name), "was_retired": was_retired}


def _name(text: str) -> tuple[int, int]:
    """A store by its two numbers, the first two of every LK1. Raises BadArguments."""
    parts = text.split(".")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        first, second = map(int, parts)
        if 1 <= first <= NUMBER_MAX and 1 <= second <= NUMBER_MAX:
            return first, second
    raise BadArguments("A store is named by two numbers, the first two of the locator of a copy (1.2).", store=text)


def _text(name: tuple[int, int]) -> str:
    return f"{name[0]}.{name[1]}"
