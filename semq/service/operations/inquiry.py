"""Operation ``msg.inquire``: inquire about a document now, before the next scheduled inquiry."""

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.service.message_names import error_for_ended, find_accepted, past_record
from semq.service.operations.arguments import ByNameWhy
from semq.service.operations.operation import Caller, act
from semq.service.operations.ports import OperatedNode


class Inquiring(OperationAnswer, frozen=True, kw_only=True):
    """A document about which the node inquires."""

    name: str
    lk0: str
    inquiring: int  #: rows about which the node inquires: of the sender, of the receiver, or both


class InquiryOperation:
    """The handler of ``msg.inquire``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def inquire(self, arguments: ByNameWhy, caller: Caller) -> Inquiring:
        """Inquire about a document now, before the next scheduled inquiry."""
        node = self._node
        rows = await find_accepted(node.store, arguments.id)
        inquiring = 0
        for row in rows:
            schedule = node.schedule_of(row["side"]) if row.get("outcome") is None else None
            if schedule is not None:
                schedule.make_due(int(row["id"]), int(row["id"]), node.engine.core.now())
                inquiring += 1
        if not inquiring:
            raise error_for_ended(await past_record(node.store, rows[0]["lk0"]))
        return Inquiring(name=rows[0]["name"], lk0=rows[0]["lk0"], inquiring=inquiring)


INQUIRY = (act("msg.inquire", AccessRole.OPERATOR, ByNameWhy, InquiryOperation.inquire, names_documents=True),)
