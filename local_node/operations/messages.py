"""Operations on a local node's own documents: cancel, hold, release, resend, requeue, remove, drain."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, TypeAlias

import structlog
from msgspec import UNSET, Meta, UnsetType

from local_node.doors.refused_submissions import facts_of, requeue_or_remove
from local_node.doors.sql_submissions import SubmissionResult
from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.messages import MessageRow
from semq.engine.errors import NotEnded, NotThere, PayloadGone, TooLate, WaitsForPieces
from semq.engine.ports import Accepted
from semq.engine.receiver.answers import ActReport
from semq.engine.sender.repetition import RepeatableDocument, read_repeatable, repetition
from semq.errors import SemqError
from semq.service.admin import committed
from semq.service.large_documents import pieces_of
from semq.service.message_names import find_group, find_one, find_open
from semq.service.operations.arguments import INT64_MAX, Arguments, ByNameWhy, Why
from semq.service.operations.operation import Caller, act
from semq.store.postgres.errors import StoreUnavailable
from semq.store.views.messages import kept_key
from semq.store.views.names import continued_as, find_messages
from semq.store.views.pieces import unfinished
from semq.store.views.submissions import IN_PIECES, PREFIX, SUBMITTED
from semq.umx_t.envelope import Envelope
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.short_name import short_name

log = structlog.get_logger("semq.messages")

DRAIN_S_MAX = 24 * 3600
RESULT_S = 5.0  # longest wait for the results of submissions that are tried again
IDS_MAX = 1000  # documents of one request
FAILED_NAME = r"^(0*[1-9][0-9]{0,17}|[1-9][0-9]*\..*)$"  # a record id of tb_0030, or an LK0
RowNumber: TypeAlias = Annotated[int, Meta(ge=1, le=INT64_MAX)]


class ActOnFailed(Arguments, frozen=True, kw_only=True):
    """Failed documents, and the reason of the act."""

    ids: Annotated[
        tuple[RowNumber | Annotated[str, Meta(pattern=FAILED_NAME, max_length=200)], ...],
        Meta(min_length=1, max_length=IDS_MAX, description="Received documents by row number, refused ones by LK0."),
    ]
    why: Why = ""


class DrainNode(Arguments, frozen=True, kw_only=True):
    """A time limit."""

    timeout_s: Annotated[float, Meta(ge=0, le=DRAIN_S_MAX, description="Longest wait in seconds.")] = 30.0


class ActedOn(OperationAnswer, frozen=True, kw_only=True):
    """The document of an act; one of the other fields says what happens to it."""

    name: str | None  #: short name
    lk0: str
    withdrawn: bool | UnsetType = UNSET  #: the submission was not accepted yet, and never will be
    cancelling: bool | UnsetType = UNSET
    members: int | UnsetType = UNSET  #: of a group: its messages that are being cancelled
    held: bool | UnsetType = UNSET
    released: bool | UnsetType = UNSET  #: a scheduled document is sent now
    resent: bool | UnsetType = UNSET


class NewState(OperationAnswer, frozen=True, kw_only=True):
    """The new state of a document or submission that was submitted again."""

    submission: int | UnsetType = UNSET  #: number of a submission by SQL, scheduled, or in pieces
    state: str
    name: str
    lk0: str | None
    reason: tuple[str, ...] | UnsetType = UNSET  #: code and text, if it was refused


class Requeued(OperationAnswer, frozen=True, kw_only=True):
    """Documents and submissions that are tried again."""

    requeued: int  #: those that are gone are not counted
    became: dict[str, NewState]  #: by the old LK0s of sent documents and submissions


class Removed(OperationAnswer, frozen=True, kw_only=True):
    """Failed documents that were removed."""

    removed: int  #: those that are gone, or have not ended, are not counted


class Drained(OperationAnswer, frozen=True, kw_only=True):
    """Whether no document is under way."""

    drained: bool


class LocalOperations:
    """The handlers."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def cancel(self, arguments: ByNameWhy, caller: Caller) -> ActedOn:
        """Cancel a document, the open ones of a group, or a submission that waits (by SQL, scheduled, in pieces)."""
        why = caller.with_user(arguments.why or "cancelled")
        try:
            row = (await find_one(self._node.store, arguments.id))[0]
        except NotThere:
            group = await find_group(self._node.store, arguments.id)
            if group is None:
                raise
            return await self._cancel_group(group, why)
        if row.get("submission") and row["outcome"] is None:
            withdrawn = await self._withdraw(int(row["submission"]), caller.with_user(arguments.why))
            if withdrawn is not None:
                return ActedOn(name=row["name"], lk0=str(withdrawn), withdrawn=True)
        acts = self._node.engine.acts
        lk0 = await self._find_unfinished(arguments.id)
        await _act(lambda done, failed: acts.cancel(lk0, done, failed, why))
        return ActedOn(name=short_name(str(lk0)), lk0=str(lk0), cancelling=True)

    async def _cancel_group(self, group: MessageRow, why: str) -> ActedOn:
        cancelling = 0
        for member in group["members"]:
            if member["outcome"] is None:
                with suppress(NotThere, TooLate):
                    lk0 = parse_lk0(member["lk0"])
                    await _act(partial(self._node.engine.acts.cancel, lk0, why=why))
                    cancelling += 1
        return ActedOn(name=group["name"], lk0=group["lk0"], cancelling=cancelling > 0, members=cancelling)

    async def _withdraw(self, number: int, why: str) -> LK0 | None:
        """Withdraw a submission; return its LK0 in the ledger, or None if it does not wait."""
        submissions = self._node.parts.submissions
        try:
            return await committed(lambda done, failed: submissions.withdraw(number, why, done, failed))
        except NotThere:
            return None

    async def hold(self, arguments: ByNameWhy, caller: Caller) -> ActedOn:
        """Hold a document before it is sent."""
        return await self._hold(arguments, caller, held=True)

    async def release(self, arguments: ByNameWhy, caller: Caller) -> ActedOn:
        """Release a held document, or a scheduled one before its time."""
        row = (await find_one(self._node.store, arguments.id))[0]
        if row.get("state") == IN_PIECES:
            raise WaitsForPieces(lk0=row["lk0"])
        if row.get("not_before"):
            number = int(row["submission"])
            await _act(lambda done, failed: self._node.parts.schedule.release(number, done, failed))
            log.info("released_early", lk0=row["lk0"], not_before=row["not_before"], by=caller.user, why=arguments.why)
            return ActedOn(name=row["name"], lk0=row["lk0"], released=True)
        return await self._hold(arguments, caller, held=False)

    async def resend(self, arguments: ByNameWhy, caller: Caller) -> ActedOn:
        """Send another copy of an unfinished document."""
        acts = self._node.engine.acts
        lk0, why = await self._find_unfinished(arguments.id), caller.with_user(arguments.why)
        await _act(lambda done, failed: acts.resend(lk0, why, done, failed))
        return ActedOn(name=short_name(str(lk0)), lk0=str(lk0), resent=True)

    async def requeue(self, arguments: ActOnFailed, caller: Caller) -> Requeued:
        """Give parked documents to their application again, and submit refused and expired ones again.

        A sent document becomes another one, with another name. A repeated request returns the same names. Raises
        NotThere if sent documents are named, and everything is gone.
        """
        brefs, lk0s = _split(arguments.ids)
        why = caller.with_user(arguments.why)
        requeued = await counted(lambda done: self._node.engine.answers.requeue(brefs, why, done)) if brefs else 0
        became: dict[str, NewState] = {}
        numbers: dict[str, int] = {}
        with suppress(NotThere):
            numbers = await self._requeue_or_remove(list(map(str, lk0s)), True, why) if lk0s else {}
        repeated = [lk0 for lk0 in lk0s if str(lk0) not in numbers]
        for lk0 in repeated:
            with suppress(NotThere):
                became[str(lk0)] = await self._repeat(lk0, why)
        if numbers:
            became |= await self._await_results(numbers)
        if lk0s and not (requeued or became):
            raise NotThere("No failed document has that name (any more).", id=" ".join(map(str, lk0s))[:200])
        return Requeued(requeued=requeued + len(became), became=became)

    async def _repeat(self, lk0: LK0, why: str) -> NewState:
        """Submit a document that ended without delivery again. Raises NotThere, StoreUnavailable."""
        store, engine = self._node.store, self._node.engine
        core = engine.core
        try:

            def read(done: Callable[[RepeatableDocument], None], failed: Callable[[Exception], None]) -> None:
                core.post(read_repeatable(lk0, done), failed=failed)

            old = await committed(read)
            if old.envelope.is_sealed:
                old = old._replace(body=await self._opened(old.envelope, old.body))
            submission = repetition(old, why, core.now_ms())

            def post(done: Callable[[Accepted], None], failed: Callable[[Exception], None]) -> None:
                submission.done, submission.failed = done, failed
                engine.submit([submission])

            return _accepted_as(str((await committed(post)).lk0))
        except NotThere:
            present = await store.execute(continued_as, str(lk0))
            if present == str(lk0):
                raise
            return _accepted_as(present)
        except StoreUnavailable:
            raise
        except SemqError as error:
            name = short_name(str(lk0)) or str(lk0)
            return NewState(state="refused", name=name, lk0=str(lk0), reason=(error.code, error.text + facts_of(error)))

    async def _opened(self, envelope: Envelope, body: bytes) -> bytes:
        """Return the payload of a sealed document of this node. Raises PayloadGone without its session key."""
        sealing = self._node.sealing
        session = sealing.session_of(envelope) if sealing is not None else b""
        kept = await self._node.store.execute(kept_key, session)
        if sealing is None or kept is None:
            raise PayloadGone("The key with which the document was sealed is no longer kept.", lk0=envelope.ident)
        return sealing.open_own(kept, envelope, body)

    async def _await_results(self, numbers: Mapping[str, int]) -> dict[str, NewState]:
        """Return the new states of submissions by their old LK0s; SUBMITTED if unknown after RESULT_S."""
        submissions, loop = self._node.parts.submissions, asyncio.get_running_loop()
        results: dict[int, asyncio.Future[SubmissionResult]] = {
            number: loop.create_future() for number in numbers.values()
        }
        for number, future in results.items():
            submissions.listen(number, future.set_result)
        submissions.poll()
        self._node.parts.transfers.search()
        await asyncio.wait(results.values(), timeout=RESULT_S)
        for number, future in results.items():
            submissions.cancel_listening(number, future.set_result)
        return {lk0: _described(number, results[number]) for lk0, number in numbers.items()}

    async def remove(self, arguments: ActOnFailed, caller: Caller) -> Removed:
        """Remove failed documents; the ledger keeps their lines.

        Raises NotThere or NotEnded if sent documents are named, and nothing was removed.
        """
        brefs, lk0s = _split(arguments.ids)
        why = caller.with_user(arguments.why)
        removed = await self._remove_received(brefs, why) if brefs else 0
        refusal: NotThere | NotEnded | None = None
        for lk0 in lk0s:
            try:
                await self._remove_sent(lk0, why)
                removed += 1
            except (NotThere, NotEnded) as error:
                refusal = error
        if refusal is not None and not removed:
            raise refusal
        return Removed(removed=removed)

    async def _remove_sent(self, lk0: LK0, why: str) -> None:
        """Remove a sent document or a refused submission. Raises NotThere, NotEnded."""
        rows = await self._node.store.execute(find_messages, str(lk0), 1)
        if rows and "submission" in rows[0]:
            await self._requeue_or_remove([str(lk0)], False, why)
        else:
            await _act(partial(self._node.engine.acts.remove, lk0, why))

    async def _remove_received(self, brefs: list[int], why: str) -> int:
        answers, store = self._node.engine.answers, self._node.store
        pieces = await pieces_of(store, brefs)
        removed = await counted(lambda done: answers.remove(brefs, why, done))
        # A document that was not parked keeps its pieces.
        for bref in await store.execute(unfinished, list(pieces)) if pieces else ():
            del pieces[bref]
        for rows in pieces.values():
            answers.finish(rows)
        return removed

    async def _requeue_or_remove(self, lk0s: list[str], is_requeued: bool, why: str) -> dict[str, int]:
        """Requeue or remove refused submissions; return their numbers by LK0. Raises NotThere."""
        core = self._node.engine.core
        return await committed(
            lambda done, failed: core.post(requeue_or_remove(core, lk0s, is_requeued, why, done), failed=failed)
        )

    async def _hold(self, arguments: ByNameWhy, caller: Caller, *, held: bool) -> ActedOn:
        acts, why = self._node.engine.acts, caller.with_user(arguments.why)
        lk0 = await self._find_unfinished(arguments.id)
        await _act(lambda done, failed: acts.hold(lk0, held, why, done, failed))
        return ActedOn(name=short_name(str(lk0)), lk0=str(lk0), held=held)

    async def _find_unfinished(self, name: str) -> LK0:
        """Return the LK0 of an unfinished message. Raises NotThere, TooLate, BadArguments."""
        return parse_lk0((await find_open(self._node.store, name))["lk0"])

    async def drain(self, arguments: DrainNode, caller: Caller) -> Drained:
        """Stop accepting documents, and wait until none is under way."""
        self._node.engine.acceptance.stop()
        return Drained(drained=await self._node.wait_drained(arguments.timeout_s))


MESSAGES = (
    act("msg.cancel", AccessRole.OPERATOR, ByNameWhy, LocalOperations.cancel, names_documents=True),
    act("msg.hold", AccessRole.OPERATOR, ByNameWhy, LocalOperations.hold, names_documents=True),
    act("msg.release", AccessRole.OPERATOR, ByNameWhy, LocalOperations.release, names_documents=True),
    act("msg.resend", AccessRole.OPERATOR, ByNameWhy, LocalOperations.resend, names_documents=True),
    act("failed.requeue", AccessRole.OPERATOR, ActOnFailed, LocalOperations.requeue, names_documents=True),
    act("failed.remove", AccessRole.OPERATOR, ActOnFailed, LocalOperations.remove, names_documents=True),
    act("node.drain", AccessRole.ADMIN, DrainNode, LocalOperations.drain),
)


def _accepted_as(lk0: str) -> NewState:
    return NewState(state="accepted", name=short_name(lk0) or lk0, lk0=lk0)


def _described(number: int, future: "asyncio.Future[SubmissionResult]") -> NewState:
    result = future.result() if future.done() else SubmissionResult(SUBMITTED.lower())
    name = result.lk0 or f"{PREFIX}{number}"
    return NewState(
        submission=number,
        state=result.state,
        name=short_name(name) or name,
        lk0=result.lk0,
        reason=tuple(result.reason) if result.reason else UNSET,
    )


def _split(ids: Iterable[int | str]) -> tuple[list[int], list[LK0]]:
    """Return the record ids, and the LK0s. Raises the errors of ``parse_lk0``."""
    names = list(map(str, ids))
    lk0s = [parse_lk0(name) for name in names if not name.isdecimal()]
    return [int(name) for name in names if name.isdecimal()], lk0s


async def counted(post: Callable[[ActReport], None]) -> int:
    """Post an act on documents; return their number after the commit."""
    return await committed(lambda done, failed: post(ActReport(done, failed)))


async def _act(post: Callable[[Callable[[], None], Callable[[Exception], None]], None]) -> None:
    """Post work and wait for the commit. Raises the error given to ``failed``."""

    def post_with_result(done: Callable[[None], None], failed: Callable[[Exception], None]) -> None:
        post(lambda: done(None), failed)

    await committed(post_with_result)
