"""Operations of a node as rows: name, kind, role, arguments, handler.

The tables (``local_node.operations.table``, ``platform_node.operations.table``) can be imported without a node.
``bind`` connects their rows with the handlers of a node.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, TypeVar, get_type_hints

import msgspec
import structlog
from msgspec import Struct

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.errors import BadInput, SemqError
from semq.service.errors import file_errors
from semq.service.operations.arguments import Arguments, read_arguments

log = structlog.get_logger("semq.operations")
LOGGED = ("id", "why")  # arguments that the log lines about acts show
Part = TypeVar("Part")
A = TypeVar("A", bound=Arguments)


class Kind(StrEnum):
    """Whether an operation changes anything."""

    LOOK = "look"  #: it changes nothing and may be repeated
    ACT = "act"  #: it is recorded with its user


class Caller(Struct, frozen=True):
    """The user of an operation, and the origin of the request."""

    user: str
    door: str = "amqp"  #: means of access
    peer: str = ""  #: network address of the user
    asked: int | None = None  #: number of the line that the web process wrote into the audit log before the act

    def with_user(self, why: str) -> str:
        """Return a reason with the name of the user."""
        return f"{why} (by {self.user})" if why else f"by {self.user}"


class DescribedOperation(OperationAnswer, frozen=True, kw_only=True):
    """An operation of a node."""

    name: str
    kind: str  #: look, act
    role: str
    summary: str
    arguments: dict[str, Any]  #: their JSON schema


class Operation(Struct, frozen=True):
    """A row of a table of operations."""

    name: str
    kind: Kind
    role: AccessRole
    arguments: type[Arguments]
    handler: Callable[..., Awaitable[object]]  #: a method of a class that is made for a node
    used_by: str = ""  #: for an operation without a command: the program that uses it
    names_documents: bool = False  #: `id` or `ids` are documents, which the audit log has by key and short name

    @property
    def is_recorded(self) -> bool:
        """Whether the audit log has lines about this operation."""
        return self.kind is Kind.ACT or self.role is AccessRole.PAYLOAD

    @property
    def answer(self) -> object:
        """The type of the result, from the handler's annotation."""
        return _answer(self.handler)

    @property
    def summary(self) -> str:
        """The first sentence of the handler's docstring."""
        return _summary(self.handler)

    def described(self) -> DescribedOperation:
        """Return the row for people and programs."""
        return DescribedOperation(
            name=self.name,
            kind=self.kind.value,
            role=self.role.value,
            summary=self.summary,
            arguments=msgspec.json.schema(self.arguments),
        )


@cache
def _summary(handler: Callable[..., Awaitable[object]]) -> str:
    text = " ".join((inspect.getdoc(handler) or "").partition("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".") + "." if text else ""


@cache
def _answer(handler: Callable[..., Awaitable[object]]) -> object:
    return get_type_hints(handler)["return"]


def look(
    name: str,
    role: AccessRole,
    arguments: type[A],
    handler: Callable[[Part, A], Awaitable[object]],
    used_by: str = "",
    names_documents: bool = False,
) -> Operation:
    """Return the row of an operation that changes nothing."""
    return Operation(name, Kind.LOOK, role, arguments, handler, used_by, names_documents)


def act(
    name: str,
    role: AccessRole,
    arguments: type[A],
    handler: Callable[[Part, A, Caller], Awaitable[object]],
    used_by: str = "",
    names_documents: bool = False,
) -> Operation:
    """Return the row of an operation that changes something; its handler also receives the caller."""
    return Operation(name, Kind.ACT, role, arguments, handler, used_by, names_documents)


# Writes a line of the audit log: (operation, arguments, caller, outcome, detail).
Note = Callable[[Operation, Mapping[str, object], Caller, str, str], Awaitable[None]]
# Returns the arguments of an operation with documents by key and short name.
WithNames = Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]]


class BoundOperation(Struct, frozen=True):
    """An operation of a running node."""

    operation: Operation
    handle: Callable[..., Awaitable[object]]
    note: Note | None = None  #: None: no audit
    with_names: WithNames | None = None

    async def __call__(self, given: Mapping[str, object], caller: Caller) -> Any:
        """Run the operation; return JSON values. Raises BadArguments, FileFailed and the errors of the handler."""
        operation = self.operation
        arguments = read_arguments(operation.name, operation.arguments, given)
        if operation.kind is Kind.LOOK:
            with file_errors():
                result = msgspec.to_builtins(await self.handle(arguments), enc_hook=str)
            if operation.is_recorded:
                await self._note(await self._named(given, caller), caller, "done")
            return result
        facts = {"operation": operation.name, "user": caller.user, "door": caller.door}
        facts |= {name: getattr(arguments, name) for name in LOGGED if getattr(arguments, name, "")}
        given = await self._named(given, caller)  # before the act: it may delete them
        try:
            with file_errors():
                result = await self.handle(arguments, caller)
        except SemqError as error:
            log.warning("act_refused", **facts, code=error.code)
            await self._note(given, caller, "refused" if isinstance(error, BadInput) else "failed", str(error))
            raise
        except Exception as error:
            await self._note(given, caller, "failed", type(error).__name__)
            raise
        log.info("act_done", **facts)
        await self._note(given, caller, "done")
        return msgspec.to_builtins(result, enc_hook=str)

    async def _named(self, given: Mapping[str, object], caller: Caller) -> Mapping[str, object]:
        is_written_here = caller.asked is None  # else by the web process
        if not (is_written_here and self.with_names is not None and self.operation.names_documents):
            return given
        return await self.with_names(given)

    async def _note(self, given: Mapping[str, object], caller: Caller, outcome: str, detail: str = "") -> None:
        if self.note is not None:
            await self.note(self.operation, given, caller, outcome, detail)


class OfferedOperation(Protocol):
    """An operation as callers see it: at this node, or at all stores of a hub (``platform_node.all_stores``)."""

    @property
    def operation(self) -> Operation:
        """The row of the operation."""

    async def __call__(self, given: Mapping[str, object], caller: Caller) -> object:
        """Run the operation; return JSON values."""


def bind(
    table: Iterable[Operation],
    node: object,
    made: Iterable[object] = (),
    note: Note | None = None,
    with_names: WithNames | None = None,
) -> dict[str, BoundOperation]:
    """Return the operations by name. ``made``: objects with handlers; of other classes, one is made for the node."""
    parts = {type(part): part for part in made}

    def bound(handler: Callable[..., object]) -> Callable[..., Awaitable[object]]:
        part_class = handler.__globals__[handler.__qualname__.partition(".")[0]]
        if part_class not in parts:
            parts[part_class] = part_class(node)
        return getattr(parts[part_class], handler.__name__)  # type: ignore[no-any-return]

    return {row.name: BoundOperation(row, bound(row.handler), note, with_names) for row in table}
