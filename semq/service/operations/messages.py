"""Operations of ``semq.admin`` that read: lists, one message, its trace, its body, counts, stuck messages."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from semq.engine.errors import PayloadGone
from semq.engine.people.stuck import StuckCause, Surroundings, is_overdue, why
from semq.service.admin import BadArguments, Handler
from semq.service.message_names import find_one, newest, past
from semq.store.postgres.store import PostgresStore
from semq.store.views import messages, names, submissions
from semq.umx_t.address import Address
from semq.umx_t.short_name import short_name

LIMIT_MAX = 1000


class Looking(Protocol):
    """What the operations need of a node."""

    store: PostgresStore
    address: Address

    def surroundings(self) -> Surroundings:
        """Return the node's state besides the rows, to find causes of stuck messages."""


def reading_handlers(node: Looking) -> dict[str, Handler]:
    """Operation | handler."""
    operations = MessageReading(node)
    return {
        "msg.list": operations.messages,
        "msg.show": operations.show,
        "msg.trace": operations.trace,
        "msg.body": operations.body,
        "queue.counts": operations.counts,
        "queue.partners": operations.partners,
        "stuck.list": operations.stuck,
        "stuck.explain": operations.explain,
    }


def read_filter(operation: str, arguments: Mapping[str, Any], limit: int = 50) -> messages.Filter:
    """Read the filter of a list. Raises BadArguments, ValueError."""
    for name in arguments:
        if name not in messages.Filter.__dataclass_fields__:
            raise BadArguments(f"{operation} has no argument {name}.")
    given = {name: value for name, value in arguments.items() if value is not None}
    wanted = msgspec.convert({"limit": limit} | given, messages.Filter, strict=False)
    return replace(wanted, limit=max(1, min(wanted.limit, LIMIT_MAX)))


class MessageReading:
    """The handlers."""

    def __init__(self, node: Looking) -> None:
        self._node = node

    async def messages(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List messages in the queues, newest first."""
        rows = await self._node.store.read(messages.list_messages, read_filter("msg.list", arguments))
        around = self._node.surroundings()
        return [row | {"overdue": is_overdue(row, around)} for row in rows]

    async def show(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """One message: its row, whether it is overdue, and why it is stuck if it is; else what the ledger tells of it
        (``cleaned``)."""
        name = str(arguments["id"])
        rows = await self._rows(name)
        if not rows:
            return await past(self._node.store, name)
        row, around = rows[0], self._node.surroundings()
        cause = why(row, around)
        overdue = {"overdue": is_overdue(row, around)}
        return row | overdue | await self._other_end(row) | ({"stuck": _told(cause, row)} if cause else {})

    async def _other_end(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Of a message to the institution itself: its end as a sent one, whose row may be cleaned before the other."""
        if row["side"] != "inbound" or row["source"] != str(self._node.address):
            return {}
        known = await past(self._node.store, row["lk0"])
        known = known if known["outcome"] else {}
        return {name: known[name] for name in ("outcome", "ended_at", "reason") if known.get(name)}

    async def trace(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Every line of the ledger about one message; of several with one key the newest, the ``others`` named.

        Of a document that was refused when it came by SQL, and tried again, also the lines under its names ``before``.
        """
        store, name = self._node.store, str(arguments["id"])
        rows = await store.read(names.find_messages, name)
        lk0, *others = newest(name, [row["lk0"] for row in rows] + await store.read(names.find_in_ledger, name))
        before = await store.read(submissions.names_before, lk0)
        events = [line for one in (*before, lk0) for line in await store.read(messages.trace, one)]
        events += [line for row in rows if row["lk0"] == lk0 and _waits(row) for line in submissions.events(row)]
        others = [one for one in others if one not in before]
        return {"name": short_name(lk0) or lk0, "lk0": lk0, "events": events, "others": others, "before": before}

    async def body(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload of a message that is still in a queue."""
        row = (await find_one(self._node.store, str(arguments["id"])))[0]
        payload = await self._node.store.read(messages.body_of, row)
        if payload is None or not row.get("has_payload", True):
            raise PayloadGone(name=row["name"])
        table = "tb_0030_body" if row["side"] == "inbound" else "tb_0031_body"
        payload = self._node.store.locking.unlock(table, row["id"], payload)
        return {
            "name": row["name"],
            "lk0": row["lk0"],
            "body_base64": b64encode(payload).decode(),
            "digest": row["digest"],
        }

    async def counts(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Count rows by queue and status."""
        return await self._node.store.read(messages.queue_counts)

    async def partners(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List waiting messages by partner."""
        return await self._node.store.read(messages.waiting_by_partner)

    async def stuck(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List stuck messages, each with cause and next step."""
        around = self._node.surroundings()
        limit = max(1, min(int(arguments.get("limit") or 200), LIMIT_MAX))
        wanted, before, after = arguments.get("cause"), around.now_ms - around.overdue_ms, (0, 0)
        submitted = await self._node.store.read(messages.stuck_submissions, limit)
        found: list[dict[str, Any]] = [
            row | {"stuck": _told(cause, row)}
            for row in submitted
            if (cause := why(row, around)) is not None and (wanted is None or cause.name == str(wanted).upper())
        ]
        while len(found) < limit:  # in pages, because the requested cause may be rare
            rows = await self._node.store.read(messages.stuck_candidates, before, LIMIT_MAX, after)
            if not rows:
                break
            after = _last(rows, "outbound", after[0]), _last(rows, "inbound", after[1])
            told = ((row, why(row, around)) for row in rows)
            found += [
                row | {"stuck": _told(cause, row)}
                for row, cause in told
                if cause is not None and (wanted is None or cause.name == str(wanted).upper())
            ]
        return found[:limit]

    async def explain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Explain one message: whether it is stuck, cause, next step, last event."""
        row = await self.show(arguments)
        events = submissions.events(row) if _waits(row) else await self._node.store.read(messages.trace, row["lk0"])
        return {"message": row, "stuck": row.pop("stuck", None), "last_events": events[-5:]}

    async def _rows(self, name: str) -> list[dict[str, Any]]:
        found = await self._node.store.read(names.find_messages, name)
        lk0 = newest(name, [row["lk0"] for row in found])[0] if found else ""
        return [row for row in found if row["lk0"] == lk0]


def _waits(row: Mapping[str, Any]) -> bool:
    """Whether a row is an SQL submission that is neither accepted nor refused."""
    return "submission" in row and row["outcome"] is None


def _last(rows: Sequence[Mapping[str, Any]], side: str, before: int) -> int:
    """The highest number of the rows of one side; the one before, where there are none."""
    return max((int(row["id"]) for row in rows if row["side"] == side), default=before)


def _told(cause: StuckCause, row: Mapping[str, Any]) -> dict[str, str]:
    return {"cause": cause.name, "meaning": cause.meaning, "next_step": cause.next_step(row)}
