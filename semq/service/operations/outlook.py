"""Operation ``msg.outlook``: the event for which a document waits at this node, and the time of the next inquiry."""

from collections.abc import Mapping

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.engine.people.stuck import (
    IN_PIECES,
    StuckCause,
    Surroundings,
    awaits_confirmation,
    is_overdue,
    stuck_cause,
    target_node,
)
from semq.service.message_names import find_one
from semq.service.operations.arguments import ByName
from semq.service.operations.operation import look
from semq.service.operations.ports import OperatedNode
from semq.umx_t.status import AppStatus, Direction, SendStatus

# The event for which a row waits | its description
WAITS: dict[str, str] = {
    "nothing": "it has ended",
    "person": "an operator has to act",
    "turn": "it is sent when its turn comes",
    "link": "it is sent as soon as the link to the hub is up",
    "direct": "it is sent as soon as the direct link to its target is up",
    "target": "it is sent as soon as its target is online",
    "ack": "the hub has to forward or store it",
    "ack2": "the receiver has to confirm it",
    "application": "an application has to take and acknowledge it",
    "reack": "the sender or the hub has to note the acknowledgement of this node",
    "sql": "the node accepts or refuses it soon",
    "time": "it is sent at its time",
    "pieces": "its pieces have to be delivered first",
}


class SideOutlook(OperationAnswer, frozen=True, kw_only=True):
    """The event for which one side of a document waits."""

    side: str
    waits_for: str  #: a key of WAITS
    asks_at: int | None  #: the next inquiry, milliseconds since 1970 UTC; null: none is planned
    overdue: bool
    cause: str | None  #: why the message is stuck; null: it is not
    next_step: str


class MessageOutlook(OperationAnswer, frozen=True, kw_only=True):
    """A document, and what its sides at this node wait for."""

    name: str
    lk0: str
    sides: list[SideOutlook]


class Outlook:
    """The handler of ``msg.outlook``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def show(self, arguments: ByName) -> MessageOutlook:
        """Return the event for which a document waits at this node, and the time of the next inquiry about it."""
        node = self._node
        rows = await find_one(node.store, arguments.id)
        surroundings = node.surroundings()
        sides = []
        for row in rows:
            event, has_inquiries = waits_for(row, surroundings)
            cause = stuck_cause(row, surroundings)
            schedule = node.schedule_of(row["side"]) if has_inquiries else None
            due = schedule.due_of(int(row["id"])) if schedule is not None else None
            sides.append(
                SideOutlook(
                    side=row["side"],
                    waits_for="person" if cause in NEED_PERSON else event,
                    asks_at=None if due is None else surroundings.now_ms + round((due - node.engine.core.now()) * 1000),
                    overdue=is_overdue(row, surroundings),
                    cause=cause.name if cause is not None else None,
                    next_step=cause.next_step(row) if cause is not None else "",
                )
            )
        return MessageOutlook(name=rows[0]["name"], lk0=rows[0]["lk0"], sides=sides)


OUTLOOK = (look("msg.outlook", AccessRole.VIEWER, ByName, Outlook.show, "the console and the HTTP API"),)
NEED_PERSON = frozenset(  # causes that only an operator can end
    {
        StuckCause.HELD, StuckCause.REFUSED, StuckCause.SUBMISSION_REFUSED, StuckCause.CANNOT_OPEN,
        StuckCause.UNREADABLE, StuckCause.PARKED, StuckCause.NEVER_RECORDED,
    }
)  # fmt: skip


def waits_for(row: Mapping[str, object], surroundings: Surroundings) -> tuple[str, bool]:
    """Return the event for which a row waits, a key of WAITS, and whether the node makes inquiries about the row."""
    if row.get("submission"):
        return _event_of_submission(row), False
    if row["side"] == "inbound":
        return _event_of_received(row)
    if row["outcome"] is not None:
        return "nothing", False
    if row["ss_status"] == SendStatus.SS_INIT.name:
        return _event_of_unsent(row, surroundings), False
    goes_by_hub = surroundings.has_hub and target_node(row) not in surroundings.direct_nodes
    return ("ack" if row["ss_status"] == SendStatus.SS_SENT.name and goes_by_hub else "ack2"), True


def _event_of_submission(row: Mapping[str, object]) -> str:
    if row["outcome"]:
        return "person"
    if row.get("state") == IN_PIECES:
        return "pieces"
    return "time" if row["not_before"] else "sql"


def _event_of_unsent(row: Mapping[str, object], surroundings: Surroundings) -> str:
    if row["direction"] == Direction.RELAYED.name:
        return "target"
    if surroundings.reaches(target_node(row)):
        return "turn"
    return "link" if surroundings.has_hub else "direct"


def _event_of_received(row: Mapping[str, object]) -> tuple[str, bool]:
    is_owed = awaits_confirmation(row)
    if row["app_status"] == AppStatus.NEW.name:
        return "application", is_owed
    return ("reack" if is_owed else "nothing"), is_owed
