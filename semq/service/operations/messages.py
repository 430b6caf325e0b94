"""Operations that read one document: its facts, trace and body, and why it is stuck. ``overview`` has the lists."""

from base64 import b64encode
from typing import Annotated, cast

from msgspec import Meta
from msgspec.structs import replace

from semq.access_rights import AccessRole
from semq.answers.messages import (
    AwaitedCause,
    Explanation,
    MessageBody,
    MessageRow,
    MessageTrace,
    StuckText,
    TracedLine,
)
from semq.engine.errors import PayloadGone
from semq.engine.people.stuck import StuckCause, is_overdue, outage_of, stuck_cause
from semq.service.large_documents import LargeBodies, with_sizes
from semq.service.message_names import find_group, find_one, newest_first, past_record
from semq.service.operations.arguments import INT64_MAX, ByName
from semq.service.operations.operation import look
from semq.service.operations.overview import described_cause
from semq.service.operations.ports import OperatedNode
from semq.store.views import messages, names, submissions
from semq.umx_t.short_name import short_name

Offset = Annotated[
    int, Meta(ge=0, le=INT64_MAX, description="First byte to return, from 0. Documents in pieces need it.")
]
Length = Annotated[
    int, Meta(ge=0, le=INT64_MAX, description="Number of bytes, at most; a document in pieces: about 8 MiB per answer.")
]

TRACED_MAX = 20  # members of a group whose lines a trace contains


class TraceMessage(ByName, frozen=True, kw_only=True):
    """One document, and the ledgers to read."""

    parties: Annotated[bool, Meta(description="Also ask the other nodes that have handled the document.")] = False


class ReadBody(ByName, frozen=True, kw_only=True):
    """One document, and the bytes of its body."""

    offset: Offset | None = None
    length: Length | None = None


class MessageReading:
    """The handlers of ``READING``, and ``trace``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node
        self._large: LargeBodies | None = None

    async def show(self, arguments: ByName) -> MessageRow:
        """Show one document: its row, and whether it is overdue or stuck; if its row is deleted, facts from the ledger.

        Facts from the ledger have the field ``cleaned``. A document to a group has ``members``, each with its outcome.
        """
        name = arguments.id
        rows = await self._rows(name)
        if not rows:
            return await find_group(self._node.store, name) or await past_record(self._node.store, name)
        row, surroundings = (await with_sizes(self._node.store, rows[:1]))[0], self._node.surroundings()
        facts: MessageRow = {**row, "overdue": is_overdue(row, surroundings), **await self._sender_outcome(row)}
        cause = stuck_cause(row, surroundings)
        if cause is not None:
            facts["stuck"] = described_cause(cause, row)
        return facts

    async def _sender_outcome(self, row: MessageRow) -> MessageRow:
        """Return the sender's outcome of a document from this institution to itself; empty for any other document."""
        # From the ledger, because the sender's row may be deleted before the receiver's.
        if row["side"] != "inbound" or row["source"] != str(self._node.address):
            return {}
        record = await past_record(self._node.store, row["lk0"])
        if not record["outcome"]:
            return {}
        found = {name: value for name, value in record.items() if name in ("outcome", "ended_at", "reason") and value}
        return cast(MessageRow, found)

    async def trace(self, name: str) -> MessageTrace:
        """Return this node's ledger lines about one document. ``others`` names more documents with the same key.

        ``before``: earlier names of the submission, whose lines are included. A group has the lines about the first
        members, and the number of all (``members``).
        """
        store = self._node.store
        rows = await store.execute(names.find_messages, name)
        lk0s = [row["lk0"] for row in rows] + await store.execute(names.find_in_ledger, name)
        group = None if lk0s else await find_group(store, name)
        if group is not None:
            return await self._trace_group(group)
        lk0, *others = newest_first(name, lk0s, rows)
        before = await store.execute(submissions.names_before, lk0)
        events: list[TracedLine] = []
        for traced in (*before, lk0):
            events += await store.execute(messages.trace, traced)
        for row in rows:
            if row["lk0"] == lk0 and (_waits(row) or "pieces" in row):
                events += submissions.events(row)
        others = [other for other in others if other not in before]
        return {"name": short_name(lk0) or lk0, "lk0": lk0, "events": events, "others": others, "before": before}

    async def _trace_group(self, group: MessageRow) -> MessageTrace:
        members = group["members"][:TRACED_MAX]
        events: list[TracedLine] = []
        for member in members:
            for line in await self._node.store.execute(messages.trace, member["lk0"]):
                detail = ": ".join(filter(None, (member["target"], line.get("detail"))))
                events.append({**line, "detail": detail})
        events.sort(key=lambda line: str(line["at"]))
        return {
            "name": group["name"],
            "lk0": group["lk0"],
            "members": len(group["members"]),
            "members_traced": len(members),
            "events": events,
            "others": [],
            "before": [],
        }

    async def body(self, arguments: ReadBody) -> MessageBody:
        """Return the payload of a document that is still in a queue, or some bytes of it."""
        row = (await find_one(self._node.store, arguments.id))[0]
        message: MessageBody = {"name": row["name"], "lk0": row["lk0"]}
        large = await self._large_bodies().read(row, arguments.offset, arguments.length)
        if large is not None:
            return {**message, **large}
        payload = await self._node.store.execute(messages.body_of, row)
        if payload is None or not row.get("has_payload", True):
            raise PayloadGone(name=row["name"])
        unlock = self._node.store.locking.unlock
        if "submission" not in row:
            payload = unlock("tb_0030_body" if row["side"] == "inbound" else "tb_0031_body", int(row["id"]), payload)
        elif row["id"] == row["submission"]:  # scheduled by the node; bodies of SQL submissions are not encrypted
            payload = unlock("tb_0031_submit", int(row["id"]), payload)
        begin = arguments.offset or 0
        end = len(payload) if arguments.length is None else begin + arguments.length
        body_base64 = b64encode(payload[begin:end]).decode()
        return {**message, "digest": row["digest"], "size": len(payload), "body_base64": body_base64}

    def _large_bodies(self) -> LargeBodies:
        if self._large is None or self._large.store is not self._node.store:
            self._large = LargeBodies(self._node.store)
        return self._large

    async def explain(self, arguments: ByName) -> Explanation:
        """Explain one document: whether it is stuck, cause, next step, last events.

        ``waits``: if the message is not stuck (yet), what it waits for. ``link``: the state of the link for which it
        waits.
        """
        row = await self.show(arguments)
        events = submissions.events(row) if _waits(row) else await self._node.store.execute(messages.trace, row["lk0"])
        stuck = row.pop("stuck", None)
        answer: Explanation = {"message": row, "stuck": stuck, "waits": None, "link": None, "last_events": events[-5:]}
        return {**answer, **self._wait(row, stuck)} if "overdue" in row else answer

    def _wait(self, row: MessageRow, stuck: StuckText | None) -> Explanation:
        """Return ``waits`` and ``link`` of a document in a queue."""
        around = self._node.surroundings()
        if stuck is not None:
            return {"link": outage_of(StuckCause[stuck["cause"]], row, around)}
        cause = stuck_cause(row, replace(around, overdue_ms=0))  # as it will be once the message is overdue
        if cause is None:
            return {}
        since = row["received_at"] if row["side"] == "inbound" else row["accepted_at"]
        waits: AwaitedCause = {"cause": cause.name, "meaning": cause.meaning, "stuck_at": since + around.overdue_ms}
        return {"waits": waits, "link": outage_of(cause, row, around)}

    async def _rows(self, name: str) -> list[MessageRow]:
        rows = await self._node.store.execute(names.find_messages, name)
        lk0 = newest_first(name, [row["lk0"] for row in rows], rows)[0] if rows else ""
        return [row for row in rows if row["lk0"] == lk0]


READING = (
    look("msg.show", AccessRole.VIEWER, ByName, MessageReading.show),
    look("msg.body", AccessRole.PAYLOAD, ReadBody, MessageReading.body, names_documents=True),
    look("stuck.explain", AccessRole.VIEWER, ByName, MessageReading.explain),
)


def _waits(row: MessageRow) -> bool:
    """Whether a row is a submission that is neither accepted nor refused."""
    return "submission" in row and row["outcome"] is None
