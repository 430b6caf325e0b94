"""The audit log at a node: a line for every act and every shown payload that is requested over AMQP; ``audit.list``.

The web process writes the lines about its requests itself, and puts the number of the line into the request. Lines
(``semq.store.audit``) contain no payloads or secrets, and have a bounded length.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import structlog
from msgspec import Meta
from sqlalchemy import Connection

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.clock import Clock
from semq.foreign_text import shortened
from semq.moments import utc_text
from semq.service.message_names import with_document_names
from semq.service.operations.arguments import INT64_MAX, Arguments, Limit, Moment, Text
from semq.service.operations.operation import Caller, Operation, look
from semq.service.operations.ports import OperatedNode
from semq.store import audit as store
from semq.store.audit import AuditFilter, Line
from semq.store.postgres.errors import StoreUnavailable
from semq.store.postgres.store import PostgresStore

log = structlog.get_logger("semq.operations")
# Acts that may end the caller's session: the answer is sent in the same turn, and the line written later.
ANSWERED_AT_ONCE = frozenset({"node.reload"})
# Arguments whose values are not recorded.
SECRET = frozenset({"body", "body_base64", "payload", "password", "token", "secret", "pem", "document", "headers"})
TEXT_MAX, LIST_MAX, DEPTH_MAX = 300, 20, 3  # of recorded arguments: characters, items, nested levels


class ListAudit(Arguments, frozen=True, kw_only=True):
    """The selection of lines, the newest first."""

    who: Annotated[Text, Meta(description="Name of the user or token that acted.")] | None = None
    act: Annotated[Text, Meta(description="Beginning of the name of the act.")] | None = None
    outcome: (
        Annotated[str, Meta(pattern="^(asked|done|refused|failed)$", max_length=7, description="Outcome.")] | None
    ) = None
    since: Moment | None = None
    until: Moment | None = None
    payloads: Annotated[bool, Meta(description="Only lines about payloads that were shown.")] = False
    before: Annotated[int, Meta(ge=1, le=INT64_MAX, description="Number of a line: only older ones.")] | None = None
    limit: Limit = 50


class AuditLine(OperationAnswer, frozen=True, kw_only=True):
    """A line of the audit log: an act, or a payload that was shown."""

    number: int
    at: str
    who: str
    via: str  #: means of access
    peer: str
    act: str
    arguments: dict[str, Any]
    outcome: str  #: asked, done, refused, failed
    detail: str
    asked: int | None  #: number of the line that was written before the act
    read_payload: bool


class AuditOperations:
    """The handler of ``audit.list``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def list_all(self, arguments: ListAudit) -> list[AuditLine]:
        """List acts and shown payloads: user, means of access, operation, time and outcome."""
        wanted = AuditFilter(
            who=arguments.who,
            act=arguments.act,
            outcome=arguments.outcome,
            since=_moment(arguments.since),
            until=_moment(arguments.until),
            payloads=arguments.payloads,
            before=arguments.before,
            limit=arguments.limit,
        )
        lines = await self._node.store.execute(store.lines, wanted)
        return [AuditLine(**line | {"at": utc_text(line["at"], exact=True)}) for line in lines]


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


class ActAudit:
    """The writer of one node's lines."""

    def __init__(self, store: PostgresStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._writing: set[asyncio.Task[None]] = set()

    async def with_names(self, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return arguments with documents by key and short name."""
        return await with_document_names(self._store.execute, given, LIST_MAX)

    async def note(
        self, operation: Operation, given: Mapping[str, object], caller: Caller, outcome: str, detail: str
    ) -> None:
        """Commit a line about an act that has ended, or about a payload that is going to be shown.

        For ANSWERED_AT_ONCE it returns before the line is written. Raises StoreUnavailable for payloads only: an act
        cannot be undone.
        """
        is_payload = operation.role is AccessRole.PAYLOAD
        line = Line(
            self._clock.wall(), storable(caller.user), caller.door, storable(caller.peer), operation.name,
            recorded(given), outcome, storable(detail), None, is_payload,
        )  # fmt: skip
        if operation.name in ANSWERED_AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._write(line, caller, is_payload=False))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        else:
            await self._write(line, caller, is_payload=is_payload)

    async def _write(self, line: Line, caller: Caller, *, is_payload: bool) -> None:
        try:
            await self._store.execute(_add_line, line, caller.asked)
        except StoreUnavailable as error:
            if is_payload:
                raise
            log.warning("act_not_audited", operation=line.act, user=caller.user, error=str(error))


def _add_line(connection: Connection, line: Line, asked: int | None) -> None:
    """Add a line, unless the web process has announced the same act in line number ``asked``."""
    if asked is None or not store.is_open(connection, asked, line.act):
        store.add(connection, [line])


def recorded(value: object, name: str = "", depth: int = 0) -> Any:
    """Return the value of the argument ``name`` as the log keeps it: without secrets, in bounded length."""
    if name.casefold() in SECRET and value is not None:
        if isinstance(value, str | bytes):
            return f"({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"
        return "(not recorded)"
    if isinstance(value, Mapping):
        if depth >= DEPTH_MAX:
            return "…"
        items = list(value.items())[:LIST_MAX]
        return {storable(str(key)): recorded(item, str(key), depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        if depth >= DEPTH_MAX:
            return "…"
        more = [f"… ({len(value) - LIST_MAX} more)"] if len(value) > LIST_MAX else []
        return [recorded(item, name, depth + 1) for item in list(value)[:LIST_MAX]] + more
    if value is None or isinstance(value, bool | int):
        return value
    return storable(str(value))


def storable(text: str) -> str:
    """Return a text that Postgres can store, shortened: without NUL characters and lone surrogates."""
    without_nul = shortened(text, TEXT_MAX).replace("\0", "\N{SYMBOL FOR NULL}")
    return without_nul.encode("utf-8", "replace").decode()


AUDIT = (look("audit.list", AccessRole.ADMIN, ListAudit, AuditOperations.list_all),)
