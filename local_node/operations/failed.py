"""Operations on failed documents, for administrators and workers: show, park.

``semq.service.operations.overview`` has ``failed.list``; ``messages`` has ``failed.requeue``, which tries them
again, and ``failed.remove``.
"""

from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection

from local_node.operations.messages import counted
from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.messages import MessageRow
from semq.engine.errors import NotThere
from semq.service.large_documents import with_sizes
from semq.service.message_names import find_accepted
from semq.service.operations.arguments import ByName
from semq.service.operations.operation import Caller, act, look
from semq.store.views.failed import find_failed
from semq.store.views.names import continued_as, find_messages
from semq.umx_t.short_name import short_name

ERROR_MAX = 64 << 10  # characters; a worker reports only the end of a longer traceback


class ParkDocument(ByName, frozen=True, kw_only=True):
    """A document, and why it cannot be processed."""

    error: Annotated[str, Meta(max_length=ERROR_MAX, description="Reason or traceback, for the ledger.")] = ""


class Parked(OperationAnswer, frozen=True, kw_only=True):
    """A document that waits for an operator now."""

    parked: str  #: its name, as given


class FailedOperations:
    """The handlers."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def show(self, arguments: ByName) -> MessageRow:
        """Show a failed document with its complete error. Raises NotThere; NotAccepted for a waiting submission."""
        failed = await self._node.store.execute(find_failed, arguments.id)
        if not failed:
            row = (await find_accepted(self._node.store, arguments.id))[0]
            new = await self._node.store.execute(continued_as, row["lk0"])
            if new != row["lk0"]:
                text = "The document was submitted again as another one."
                raise NotThere(text, name=row["name"], became=short_name(new) or new).with_remedy(
                    "`semq msg show` shows both."
                )
            state = row.get("outcome") or row.get("ss_status") or row.get("app_status")
            raise NotThere("The document has not failed.", name=row["name"], state=state).with_remedy(
                "`semq msg show` shows it."
            )
        return (await with_sizes(self._node.store, failed[:1]))[0]

    async def park(self, arguments: ParkDocument, caller: Caller) -> Parked:
        """Park a document that waits for its application or is delivered to it."""
        name = arguments.id
        rows = await self._node.store.execute(_waiting, name)
        if not rows:
            raise NotThere("No document of that name waits for its application.", id=name)
        if not await counted(lambda done: self._node.engine.answers.park(rows[:1], arguments.error, done)):
            raise NotThere("No document of that name waits for its application any more.", id=name)
        return Parked(parked=name)


FAILED = (
    look("failed.show", AccessRole.VIEWER, ByName, FailedOperations.show),
    act("failed.park", AccessRole.OPERATOR, ParkDocument, FailedOperations.park, names_documents=True),
)


def _waiting(connection: Connection, name: str) -> list[int]:
    rows = find_messages(connection, name)
    return [int(row["id"]) for row in rows if row["side"] == "inbound" and row.get("app_status") == "NEW"]
