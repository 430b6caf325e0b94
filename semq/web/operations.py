"""Operations of the node for visitors: refused beyond their roles, and recorded if they act or show a payload.

An act has two lines in the audit log: one before it is asked of the node, and one with its outcome. A process that dies
between them leaves the first one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semq.app import Client
from semq.errors import BadInput, SemqError, Unavailable
from semq.web.audit import Audit
from semq.web.errors import NoSuchPage, RoleMissing
from semq.web.visitor import Role, Visitor

LOOK_S, ACT_S = 8.0, 30.0  # longest wait for an answer of the node


@dataclass(frozen=True, slots=True)
class Row:
    """An operation as its callers see it."""

    name: str
    role: Role
    is_act: bool

    @property
    def is_recorded(self) -> bool:
        """Whether the audit log has lines about it."""
        return self.is_act or self.role is Role.PAYLOAD


class Operations:
    """The operations of one node."""

    def __init__(self, table: Mapping[str, Row], client: Client, audit: Audit) -> None:
        self.table = table
        self._client = client
        self._audit = audit

    async def ask(self, who: Visitor, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Run an operation and return its result.

        Raises NotAllowed, NoSuchPage, RefusedByNode, NodeBusy, NodeUnreachable, NoAnswer, StoreUnavailable.
        """
        row = self.table.get(operation)
        if row is None:
            raise NoSuchPage("The node has no such operation.", operation=operation[:80])
        if not who.may(row.role):
            if row.is_recorded:
                await self._note(who, row, arguments, "refused", RoleMissing.code)
            raise RoleMissing(operation=row.name, role=row.role.value)
        if not row.is_recorded:
            return await self._client.request(row.name, arguments, timeout_s=LOOK_S)
        asked = await self._note(who, row, arguments, "asked")
        try:
            result = await self._client.request(row.name, arguments, timeout_s=ACT_S, repeat=not row.is_act)
        except SemqError as error:
            outcome = "refused" if isinstance(error, BadInput) else "failed"
            await self._afterwards(who, row, outcome, str(error), asked)
            raise
        except BaseException:
            await self._afterwards(who, row, "failed", "the request ended before the answer", asked)
            raise
        await self._afterwards(who, row, "done", "", asked)
        return result

    async def _note(
        self,
        who: Visitor,
        row: Row,
        arguments: Mapping[str, Any],
        outcome: str,
        detail: str = "",
        asked: int | None = None,
    ) -> int:
        return await self._audit.note(
            who.name, who.via, who.peer, row.name, arguments,
            outcome=outcome, detail=detail, asked=asked, read_payload=row.role is Role.PAYLOAD,
        )  # fmt: skip

    async def _afterwards(self, who: Visitor, row: Row, outcome: str, detail: str, asked: int) -> None:
        try:
            await self._note(who, row, {}, outcome, detail, asked)
        except Unavailable:
            pass  # the line before the act stands; the act itself cannot be taken back


LOOKS = """
node.status node.health node.metrics msg.list msg.show msg.trace queue.counts queue.partners stuck.list stuck.explain
failed.list failed.show cert.show cert.list trust.list nodes.list definitions.export held.list held.count stores.list
queue.census stuck.causes stuck.page failed.page msg.search msg.outlook job.list nodes.tokens
broker.queues broker.consumers broker.connections broker.channels broker.exchanges broker.bindings worker.list
"""
ACTS = {
    Role.OPERATOR: "msg.inquire msg.cancel msg.hold msg.release msg.resend failed.requeue failed.remove failed.park"
    " held.refuse held.resend",
    Role.ADMIN: "node.reload node.drain trust.add trust.remove cert.renew cert.rotate cert.revoke nodes.token"
    " nodes.rebind definitions.import stores.retire job.run job.pause job.resume",
}


def table() -> dict[str, Row]:
    """Return the operations of both kinds of nodes by name."""
    rows = [Row(name, Role.VIEWER, is_act=False) for name in LOOKS.split()]
    rows += [Row("msg.body", Role.PAYLOAD, is_act=False)]
    rows += [Row(name, Role.OPERATOR, is_act=False) for name in ("ledger.verify", "definitions.diff")]
    rows += [Row(name, role, is_act=True) for role, names in ACTS.items() for name in names.split()]
    return {row.name: row for row in rows}
