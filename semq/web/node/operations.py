"""Operations of the node for visitors. Each operation requires a role; acts and displays of payloads are recorded.

A recorded operation has two lines in the audit log: one before the request to the node, and one with the outcome.
"""

from collections.abc import Mapping
from typing import Any

from semq.access_rights import AccessRole
from semq.app import Client
from semq.errors import BadInput, SemqError, Unavailable
from semq.service.operations.arguments import read_arguments
from semq.service.operations.operation import Kind, Operation
from semq.web.access.visitor import Visitor
from semq.web.errors import NoSuchPage, RoleMissing
from semq.web.node.audit import Audit

CREATE_TOKEN = "token.create"  # the operation that grants rights to a program
ASK_S, ACT_S = 8.0, 30.0  # longest wait for an answer of the node


class Operations:
    """The operations of one node."""

    def __init__(self, table: Mapping[str, Operation], client: Client, audit: Audit) -> None:
        self.table = table
        self.client = client  #: connected as an administrator
        self._audit = audit

    async def ask(
        self,
        visitor: Visitor,
        operation: str,
        arguments: Mapping[str, object],
        patience_s: float = ASK_S,
    ) -> Any:
        """Run an operation and return its result.

        ``patience_s``: longest wait for an answer. For a recorded operation it is at least ACT_S, plus the argument
        ``timeout_s`` of the operation.

        Raises RoleMissing, NoSuchPage, BadArguments, and the errors of ``Client.request`` and ``Audit.note``.
        """
        row = self.table.get(operation)
        if row is None:
            raise NoSuchPage("The node has no such operation.", operation=operation[:80])
        if not visitor.may(row.role):
            if row.is_recorded:
                await self._note(visitor, row, arguments, "refused", RoleMissing.code)
            raise visitor.lacks(row.role, operation=row.name)
        checked = read_arguments(row.name, row.arguments, arguments)
        if row.name == CREATE_TOKEN:
            await self._check_grant(visitor, row, arguments)
        client = visitor.login or self.client
        if not row.is_recorded:
            return await client.request(row.name, arguments, timeout_s=patience_s)
        patience_s = max(patience_s, ACT_S) + float(getattr(checked, "timeout_s", 0))
        noted = await self._audit.with_names(arguments) if row.names_documents else arguments
        asked = await self._note(visitor, row, noted, "asked")
        try:
            repeat = row.kind is Kind.LOOK
            result = await client.request(
                row.name, arguments, timeout_s=patience_s, repeat=repeat, by=visitor.name, asked=asked
            )
        except SemqError as error:
            outcome = "refused" if isinstance(error, BadInput) else "failed"
            await self._note_outcome(visitor, row, outcome, str(error), asked)
            raise
        except BaseException:
            await self._note_outcome(visitor, row, "failed", "the request ended before the answer", asked)
            raise
        await self._note_outcome(visitor, row, "done", "", asked)
        return result

    async def _check_grant(self, visitor: Visitor, row: Operation, arguments: Mapping[str, Any]) -> None:
        try:
            visitor.check_grant(map(str, arguments.get("scopes") or ()))
        except RoleMissing:
            await self._note(visitor, row, arguments, "refused", RoleMissing.code)
            raise

    async def _note(
        self,
        visitor: Visitor,
        row: Operation,
        arguments: Mapping[str, object],
        outcome: str,
        detail: str = "",
        asked: int | None = None,
    ) -> int:
        return await self._audit.note(
            visitor.name, visitor.via, visitor.peer, row.name, arguments,
            outcome=outcome, detail=detail, asked=asked, read_payload=row.role is AccessRole.PAYLOAD,
        )  # fmt: skip

    async def _note_outcome(self, visitor: Visitor, row: Operation, outcome: str, detail: str, asked: int) -> None:
        try:
            await self._note(visitor, row, {}, outcome, detail, asked)
        except Unavailable:
            pass  # the line before the act remains, and the act cannot be undone


def table(kind: str) -> dict[str, Operation]:
    """Return the operations of a kind of node, keyed by name."""
    if kind == "local":
        from local_node.operations.table import OPERATIONS
    else:
        from platform_node.operations.table import OPERATIONS
    return {row.name: row for row in OPERATIONS}
