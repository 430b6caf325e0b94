"""Operation ``msg.inquire``: inquire about a message now instead of at its scheduled time, through the engine."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from semq.engine.time.schedule import Schedule
from semq.service.admin import Handler
from semq.service.message_names import ended, find_accepted, past
from semq.store.postgres.store import PostgresStore


class InquiringNode(Protocol):
    """What the operation needs of a node."""

    store: PostgresStore


def inquire_handler(
    node: InquiringNode, schedule_of: Callable[[str], Schedule | None], now: Callable[[], float]
) -> Handler:
    """Return the handler. ``schedule_of`` returns the engine's schedule of ``outbound`` or ``inbound`` rows."""

    async def inquire(arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = str(arguments["id"])
        rows = await find_accepted(node.store, name)
        asked = [row for row in rows if row.get("outcome") is None and schedule_of(row["side"]) is not None]
        if not asked:
            raise ended(await past(node.store, rows[0]["lk0"]))
        for row in asked:
            schedule = schedule_of(row["side"])
            assert schedule is not None
            schedule.make_due(row["id"], row["id"], now())
        return {"name": asked[0]["name"], "lk0": asked[0]["lk0"], "inquiring": len(asked)}

    return inquire
