"""Acts on many messages: a selection is fixed and counted, confirmed with a reason, and processed in batches.

A batch is one request to the node. A hub applies it in one transaction for each store, a local node in one or several
transactions. So a batch that fails may be done in part. An act can be stopped between batches, and is interrupted if
the web process ends. Messages on which the node did nothing are counted by their results (``words.RESULTS``).

The audit log has a line for the beginning of an act, and one for the end. Without the second, the act is running or was
interrupted, or the line could not be written.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from msgspec import Struct, field

from semq.console.acts import MessageAct
from semq.console.display import Row
from semq.engine.errors import AlreadySent, NotEnded, NotThere, TooLate
from semq.errors import BadInput, SemqError
from semq.store.audit import AuditFilter, lines
from semq.web.pages.visit import Visit
from semq.web.services import Web

log = structlog.get_logger("semq.console")
ACTS_MAX = 50  # number of acts that a process remembers; running acts are never forgotten
AUDIT_PREFIX = "bulk."  # beginning of the names of acts in the audit log
LINES_MAX = 200  # number of audit lines that are searched
# (visit, reason) -> number of messages of each finished batch by result: DONE, or a key of ``words.RESULTS``
Work = Callable[[Visit, str], AsyncIterator[Counter[str]]]
DONE, GONE, LATE = "done", "gone", "late"
ENDED = (TooLate.code, AlreadySent.code)  # errors of the node if a message has ended or was sent meanwhile
NOTHING_DONE = (
    NotThere.code,
    NotEnded.code,
    *ENDED,
)  # errors of the node if it has acted on none of the named messages
# Operation on copies at the hub | results of its answer that are DONE
DONE_AT_HUB = {"held.refuse": ("refused", "repeated"), "held.resend": ("resent",)}


class BulkAct(Struct):
    """An act on many messages."""

    key: str  #: random, in the address of the act's page
    user: str
    act: str  #: a key of ``acts.ACTS``
    back: str  #: address of the list in which the messages were selected
    total: int
    sample: list[Row]  #: messages that the page shows
    work: Work
    filter_text: str = ""  #: the filter of the selection; empty: the messages were selected one by one
    why: str = ""
    results: Counter[str] = field(default_factory=Counter)  #: number of messages by result
    error: str = ""
    state: str = "prepared"  #: prepared, running, done, failed, stopped
    started_at: int | None = None
    asked_line: int | None = None  #: number of the audit line about the beginning
    _task: asyncio.Task[None] | None = None

    @property
    def done(self) -> int:
        return self.results[DONE]

    @property
    def not_done(self) -> dict[str, int]:
        """The number of messages on which nothing was done, by result."""
        return {result: number for result, number in self.results.items() if result != DONE}

    async def start(self, visit: Visit, why: str, at: int) -> None:
        """Begin a prepared act. If this raises, the act has not begun."""
        if self.state != "prepared":
            return
        self.state, self.why, self.started_at = "running", why, at
        try:
            facts = {"messages": self.total, "chosen": self.filter_text, "why": why}
            self.asked_line = await visit.note(AUDIT_PREFIX + self.act, facts, outcome="asked")
        except BaseException:
            self.state = "prepared"
            raise
        self._task = asyncio.get_running_loop().create_task(self._run(visit))

    def stop(self) -> None:
        """Stop a running act after the present batch, or discard a prepared one."""
        if self.state in ("prepared", "running"):
            self.state = "stopped"

    async def _run(self, visit: Visit) -> None:
        try:
            async for results in self.work(visit, self.why):
                self.results += results
                if self.state != "running":
                    break
            else:
                self.state = "done"
        except SemqError as error:
            self.state, self.error = "failed", str(error)
        except Exception as error:
            log.exception("bulk_act_failed", act=self.act, done=self.done, of=self.total)
            self.state, self.error = "failed", f"{type(error).__name__}: {error}"
        await self._note_end(visit)

    async def _note_end(self, visit: Visit) -> None:
        outcome = "failed" if self.state == "failed" else "done"
        facts = {"done": self.done, "of": self.total, **self.not_done}
        detail = self.error or ("" if self.state == "done" else self.state)
        try:
            await visit.note(AUDIT_PREFIX + self.act, facts, outcome=outcome, detail=detail, asked=self.asked_line)
        except SemqError as error:
            log.warning("bulk_act_end_not_noted", act=self.act, state=self.state, **facts, error=str(error))


def identity(row: Row) -> str:
    """Return the name of a failed document for operations."""
    return str(row["id"]) if row["side"] == "inbound" else str(row["lk0"])


async def rows_of(visit: Visit, act: MessageAct, names: Sequence[str]) -> dict[str, Row]:
    """Return messages by the names that the operation of an act takes; one that is gone has its name only."""

    async def row_of(name: str) -> tuple[str, Row]:
        try:
            row: Row = await visit.ask(act.shown_by, id=name)
        except BadInput:
            return name, {"lk0": name, "name": name}
        return identity(row) if act.batch > 1 else str(row["lk0"]), row

    return dict(await asyncio.gather(*map(row_of, names)))


def by_names(act: MessageAct, names: Sequence[str]) -> Work:
    """Return work that applies an act to messages, a batch at a time."""

    async def work(visit: Visit, why: str) -> AsyncIterator[Counter[str]]:
        for begin in range(0, len(names), act.batch):
            ids = names[begin : begin + act.batch]
            arguments: dict[str, object] = {"ids": ids} if act.batch > 1 else {"id": ids[0]}
            arguments |= {act.reason: why} if act.reason else {}
            try:
                answer = await visit.ask(act.operation, **arguments)
                results = results_of(act.operation, answer) if act.batch > 1 else Counter({DONE: 1})
            except BadInput as error:
                if error.code not in NOTHING_DONE:
                    raise
                results = Counter({LATE: len(ids)} if error.code in ENDED else {})
            yield results + Counter({GONE: len(ids) - results.total()})

    return work


def results_of(operation: str, answer: Mapping[str, Any]) -> Counter[str]:
    """Return the number of messages by result, as ``Work`` yields them."""
    if operation in DONE_AT_HUB:
        results = Counter(answer["counts"])
        return results + Counter({DONE: sum(results.pop(name, 0) for name in DONE_AT_HUB[operation])})
    again = sum(new["state"] == "refused" for new in answer.get("became", {}).values())
    return +Counter({DONE: answer.get("requeued", answer.get("removed", 0)) - again, "again": again})


def filter_text(chosen: Mapping[str, object]) -> str:
    """Return the text of a filter for ``BulkAct.filter_text``, by names and values."""
    return ", ".join(f"{name} {value}" for name, value in chosen.items()) or "all"


_acts: WeakKeyDictionary[Web, dict[str, BulkAct]] = WeakKeyDictionary()  # keyed by ``BulkAct.key``


def prepare(visit: Visit, **facts: Any) -> BulkAct:
    """Return a new act with the fields ``facts``. Beyond ACTS_MAX, forget the oldest acts that do not run."""
    acts = _acts.setdefault(visit.web, {})
    for key in [key for key, act in acts.items() if act.state != "running"][: max(0, len(acts) - ACTS_MAX + 1)]:
        del acts[key]
    act = BulkAct(key=visit.web.clock.uuid().hex, user=visit.visitor.name, **facts)
    acts[act.key] = act
    return act


def find(visit: Visit, key: str) -> BulkAct | None:
    """Return an act by its key; None if the act is forgotten."""
    return _acts.get(visit.web, {}).get(key)


def recent(visit: Visit) -> list[BulkAct]:
    """Return the started and discarded acts, the last prepared one first."""
    return [act for act in reversed(list(_acts.get(visit.web, {}).values())) if act.state != "prepared"]


async def interrupted(visit: Visit) -> list[dict[str, object]]:
    """Return the audit lines of acts that earlier processes have begun and not ended, the newest first."""
    audit_lines = await visit.read(lines, AuditFilter(act=AUDIT_PREFIX, limit=LINES_MAX))
    own_lines = {act.asked_line for act in _acts.get(visit.web, {}).values()}
    ended = {line["asked"] for line in audit_lines}
    return [line for line in audit_lines if line["outcome"] == "asked" and line["number"] not in own_lines | ended]
