"""Operations on failed documents, for administrators and workers: list, show, park, requeue, remove.

``failed.list`` and ``failed.show`` change nothing. With ``failed.park`` an application or operator parks a document
that cannot be processed; the reason goes to the ledger. ``failed.requeue`` returns parked documents to their
application; ``failed.remove`` ends parked and refused ones.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from local_node.operations.messages import counted
from semq.engine.errors import NotThere
from semq.service.admin import BadArguments, Handler
from semq.service.message_names import find_accepted
from semq.service.operations.messages import read_filter
from semq.store.views.failed import list_failed
from semq.store.views.messages import Filter
from semq.store.views.names import find_messages

if TYPE_CHECKING:
    from local_node.node import LocalNode


class FailedOperations:
    """The handlers of ``failed.list``, ``failed.show`` and ``failed.park``."""

    def __init__(self, node: "LocalNode") -> None:
        self._node = node

    def table(self) -> dict[str, Handler]:
        """Operation | handler."""
        return {"failed.list": self.list, "failed.show": self.show, "failed.park": self.park}

    async def list(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List failed documents, newest first; with the filters of msg.list, or ``id`` for one name."""
        wanted = dict(arguments)
        name = str(wanted.pop("id", None) or "")
        if "state" in wanted:
            raise BadArguments("failed.list has no argument state.")
        return await self._node.store.read(list_failed, read_filter("failed.list", wanted, 100), name)

    async def show(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a failed document with its whole error. Raises NotThere; NotAccepted for a waiting submission."""
        name = str(arguments["id"])
        found = await self._node.store.read(list_failed, Filter(limit=1), name)
        if not found:
            row = (await find_accepted(self._node.store, name))[0]
            where = row.get("outcome") or row.get("ss_status") or row.get("app_status")
            raise NotThere("It has not failed.", name=row["name"], state=where).with_remedy("`semq msg show` shows it.")
        return found[0]

    async def park(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Park a document that waits for its application or is delivered to it; ``error`` goes to the ledger."""
        name = str(arguments["id"])
        rows = await self._node.store.read(_waiting, name)
        if not rows:
            raise NotThere("No document of that name waits for its application.", id=name)
        why = str(arguments.get("error") or "")
        if not await counted(lambda told: self._node.engine.handing.park(rows[:1], why, told)):
            raise NotThere("No document of that name waits for its application any more.", id=name)
        return {"parked": name}


def _waiting(connection: Any, name: str) -> list[int]:
    rows = find_messages(connection, name)
    return [int(row["id"]) for row in rows if row["side"] == "inbound" and row.get("app_status") == "NEW"]
