"""Administration: exchange ``semq.admin``, one JSON request per message, one JSON answer to ``reply_to``.

Answers are transient messages. ``RequestExchange`` also serves the requests of nodes to their hub and to partners.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from semq.access_rights import AccessRole, rights_of
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import PreconditionFailed
from semq.broker.services import CONFIRMED, NACKED, OfferedMessage, Refused, ServiceExchange, SessionInfo
from semq.broker.vhost import VirtualHost
from semq.errors import SemqError, Unavailable, fact_text, semq_error
from semq.foreign_text import shortened, shown
from semq.service.errors import BadArguments, Busy, PersonLacksRole, StoresUnreached, UnknownOperation, file_errors
from semq.service.operations.arguments import read_arguments
from semq.service.operations.operation import Caller, OfferedOperation
from semq.store.accounts import Account

ADMIN = "semq.admin"
PERSON_HEADER, PERSON_CHARS_MAX = "x-semq-by", 100
AUDIT_LINE_HEADER = "x-semq-asked"
FindPerson = Callable[[str], Awaitable[Account | None]]
RequestHandler = Callable[[SessionInfo, Mapping[str, object]], Awaitable[object]]
A = TypeVar("A", bound=msgspec.Struct)
Result = TypeVar("Result")
log = structlog.get_logger("semq.admin")


class RequestExchange(ServiceExchange):
    """An exchange that answers requests by a table of handlers.

    Each user has at most ``at_once`` requests in progress, over all connections. A request has at most ``body_max``
    bytes.
    """

    __slots__ = ("_at_once", "_handlers", "_tasks", "_vhost")

    def __init__(
        self,
        name: str,
        vhost: VirtualHost,
        handlers: Mapping[str, RequestHandler],
        at_once: int = 256,
        body_max: int = 128 << 20,
    ) -> None:
        super().__init__(name, "x-admin", body_max)
        self._vhost = vhost
        self._handlers = dict(handlers)
        self._at_once = at_once
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}  #: by user

    def publish(self, message: OfferedMessage) -> None:
        """Start the answer to a request. The routing key names the operation."""
        session, header, settle = message.session, message.header, message.settle
        if not header.reply_to:
            settle(Refused(PreconditionFailed("a request needs reply_to")))
            return
        tasks = self._tasks.setdefault(session.user, set())
        if len(tasks) >= self._at_once:
            answer(self._vhost, header, {"ok": False, "error": describe(Busy(at_once=self._at_once))})
            settle(NACKED)
            return
        task = asyncio.get_running_loop().create_task(self._answer(message))
        tasks.add(task)
        task.add_done_callback(lambda task: self._answered(session.user, task))
        settle(CONFIRMED)

    def _answered(self, user: str, task: asyncio.Task[None]) -> None:
        self._tasks[user].discard(task)
        if not self._tasks[user]:
            del self._tasks[user]

    async def _answer(self, message: OfferedMessage) -> None:
        try:
            reply = {"ok": True, "result": await self._handle(message.session, message.routing_key, message.body)}
        except SemqError as error:
            reply = {"ok": False, "error": describe(error)}
            if isinstance(error, StoresUnreached):
                reply["result"] = error.result
        except Exception:
            log.exception("admin_failed", operation=message.routing_key)
            reply = {
                "ok": False,
                "error": describe(SemqError("The node failed on this request; its log has the reason.")),
            }
        answer(self._vhost, message.header, reply)

    async def _handle(self, session: SessionInfo, operation: str, body: bytes) -> object:
        handler = self._handlers.get(operation)
        if handler is None:
            raise UnknownOperation(operation=operation[:80])
        try:
            arguments = msgspec.json.decode(body or b"{}", type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadArguments("The request is not a JSON object.", fault=str(error)) from error
        with file_errors():
            return await handler(session, arguments)


class AdminExchange(RequestExchange):
    """Exchange ``semq.admin``. A user with the permission to publish to it may use all operations."""

    __slots__ = ()

    def __init__(
        self, vhost: VirtualHost, operations: Mapping[str, OfferedOperation], person: FindPerson | None = None
    ) -> None:
        """``person``: finds the user of the node for a person at the command line."""
        handlers = {name: _admin_handler(operation, person) for name, operation in operations.items()}
        super().__init__(ADMIN, vhost, handlers)

    async def _answer(self, message: OfferedMessage) -> None:
        """Answer a request. The caller is the session's user, or ``PERSON via USER`` if header ``x-semq-by`` is
        present; PERSON alone, with this person's roles, if the node has a user of this name.

        Header ``x-semq-asked`` has the number of the line that the web process wrote into the audit log before the act.
        """
        headers = message.header.headers or {}
        person, audit_line = headers.get(PERSON_HEADER), headers.get(AUDIT_LINE_HEADER)
        if isinstance(person, str) and person:
            user = f"{shown(shortened(person, PERSON_CHARS_MAX))} via {message.session.user}"
            # The web process has checked the roles of its visitor, and has written a line.
            more = {AUDIT_LINE_HEADER: audit_line} if type(audit_line) is int else {PERSON_HEADER: person}
            state = message.session.state | more
            message = message._replace(session=replace(message.session, user=user, state=state))
        await super()._answer(message)


def _admin_handler(operation: OfferedOperation, person: FindPerson | None) -> RequestHandler:
    async def handle(session: SessionInfo, arguments: Mapping[str, object]) -> object:
        user, name = session.user, session.state.get(PERSON_HEADER)
        account = await person(name) if name and person is not None else None
        if account is not None:
            user = account.name
            _check_role(account, operation.operation.role, operation.operation.name)
        caller = Caller(user, peer=session.peer.host, asked=session.state.get(AUDIT_LINE_HEADER))
        return await operation(arguments, caller)

    return handle


def typed(name: str, struct: type[A], handler: Callable[[SessionInfo, A], Awaitable[object]]) -> RequestHandler:
    """Return a handler that reads the arguments into ``struct`` and calls ``handler``."""

    async def handle(session: SessionInfo, arguments: Mapping[str, object]) -> object:
        return await handler(session, read_arguments(name, struct, arguments))

    return handle


def answer(vhost: VirtualHost, request: ContentHeader, reply: Mapping[str, object]) -> None:
    """Publish an answer to the queue that the request names in ``reply_to``."""
    body = msgspec.json.encode(reply, enc_hook=str)
    properties = Properties(content_type="application/json", correlation_id=request.correlation_id)
    vhost.publish_internal("", request.reply_to or "", ContentHeader.build(len(body), properties), body)


def describe(error: SemqError) -> dict[str, object]:
    """Return an error as JSON values. ``retry``: whether the error is temporary."""
    return {
        "code": error.code,
        "retry": isinstance(error, Unavailable),
        "text": error.text,
        "remedy": error.remedy,
        "facts": {name: fact_text(value) for name, value in error.facts.items()},
    }


async def committed(post: Callable[[Callable[[Result], None], Callable[[Exception], None]], None]) -> Result:
    """Post work by ``post(on_commit, on_failure)``; return its result after the commit.

    Raises the SemqError of the work or of the store, and Unavailable for any other error.
    """
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def on_commit(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def on_failure(error: Exception) -> None:
        if not future.done():
            future.set_exception(semq_error(error))

    post(on_commit, on_failure)
    return await future


def _check_role(account: Account, role: AccessRole, operation: str) -> None:
    """Raise PersonLacksRole if a person is disabled or lacks the role of an operation."""
    given = rights_of(account.roles) if account.disabled_at is None else frozenset()
    if role not in given:
        has = ", ".join(account.roles) if given else "none: the user is disabled"
        raise PersonLacksRole(name=account.name, operation=operation, needs=role.value, has=has)
