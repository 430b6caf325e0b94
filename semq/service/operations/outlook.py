"""Operation ``msg.outlook``: what a message waits for at this node, and when the node asks about it next."""

from collections.abc import Mapping
from typing import Any, Protocol

from semq.access_rights import AccessRole
from semq.engine.people.stuck import IN_PIECES, StuckCause, Surroundings, is_overdue, target_node, why
from semq.engine.time.schedule import Schedule
from semq.service.message_names import find_one
from semq.service.operations.arguments import ByName
from semq.service.operations.census import OverviewNode
from semq.service.operations.operation import look
from semq.umx_t.status import AckStatus, AppStatus, Direction, SaveFwd, SendStatus

# The event for which a row waits | its description
WAITS: dict[str, str] = {
    "nothing": "it has ended",
    "person": "a person has to act",
    "turn": "it is sent when its turn comes",
    "link": "it is sent as soon as the link to the hub is up",
    "direct": "it is sent as soon as the direct link to its target is up",
    "target": "it is sent as soon as its target is online",
    "ack": "the hub has to forward or store it",
    "ack2": "the receiver has to confirm it",
    "application": "an application has to take and acknowledge it",
    "reack": "the other side has to note our acknowledgement",
    "sql": "the node looks at it soon",
    "time": "it is sent at its time",
    "pieces": "its pieces have to be delivered first",
}


class OutlookNode(OverviewNode, Protocol):
    """The parts of a node that the operation uses."""

    def schedule_of(self, side: str) -> Schedule | None:
        """Return the engine's schedule of inquiries about ``outbound`` or ``inbound`` rows."""

    def engine_time(self) -> float:
        """Return the engine's time in seconds, which is that of the schedules."""


class Outlook:
    """The handler."""

    def __init__(self, node: OutlookNode) -> None:
        self._node = node

    async def show(self, arguments: ByName) -> dict[str, Any]:
        """Return what a message waits for at this node, and the time of the next inquiry about it."""
        node = self._node
        rows = await find_one(node.store, arguments.id)
        around = node.surroundings()
        sides = []
        for row in rows:
            waits, asks = waits_for(row, around)
            cause = why(row, around)
            schedule = node.schedule_of(row["side"]) if asks else None
            due = schedule.due_of(row["id"]) if schedule is not None else None
            sides.append(
                {
                    "side": row["side"],
                    "waits_for": "person" if cause in BY_PERSON else waits,
                    "asks_at": None if due is None else around.now_ms + round((due - node.engine_time()) * 1000),
                    "overdue": is_overdue(row, around),
                    "cause": cause.name if cause is not None else None,
                    "next_step": cause.next_step(row) if cause is not None else "",
                }
            )
        return {"name": rows[0]["name"], "lk0": rows[0]["lk0"], "sides": sides}


OUTLOOK = (look("msg.outlook", AccessRole.VIEWER, ByName, Outlook.show, "the console and the HTTP API"),)
BY_PERSON = frozenset(
    {
        StuckCause.HELD, StuckCause.REFUSED, StuckCause.SUBMISSION_REFUSED, StuckCause.CANNOT_OPEN,
        StuckCause.UNREADABLE, StuckCause.PARKED, StuckCause.NEVER_RECORDED,
    }
)  # fmt: skip


def waits_for(row: Mapping[str, Any], around: Surroundings) -> tuple[str, bool]:
    """Return what a row waits for, a key of WAITS, and whether inquiries are made about it."""
    if row.get("submission"):
        of_state = "pieces" if row.get("state") == IN_PIECES else "time" if row["not_before"] else "sql"
        return ("person" if row["outcome"] else of_state), False
    if row["side"] == "inbound":
        return _inbound(row)
    if row["outcome"] is not None:
        return "nothing", False
    if row["ss_status"] == SendStatus.SS_INIT.name:
        if row["direction"] == Direction.RELAYED.name:
            return "target", False
        return ("turn" if around.reaches(target_node(row)) else "link" if around.has_hub else "direct"), False
    by_hub = around.has_hub and target_node(row) not in around.direct
    return ("ack" if row["ss_status"] == SendStatus.SS_SENT.name and by_hub else "ack2"), True


def _inbound(row: Mapping[str, Any]) -> tuple[str, bool]:
    owed = row["save_fwd"] == SaveFwd.MUST.value and row["s_ack_status"] == AckStatus.AS_INIT.name
    owed = owed or (row["lk1"] is not None and row["p_ack_status"] == AckStatus.AS_INIT.name)
    if row["app_status"] == AppStatus.NEW.name:
        return "application", owed
    return ("reack" if owed else "nothing"), owed
