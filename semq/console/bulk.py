"""Acts on many messages: the set is frozen when it is prepared, counted, confirmed with a reason, and worked off in
batches with progress; it can be stopped between two batches.

The work continues in the web process when the page is closed. If that process ends, what was not done stays as it was,
and the act can be prepared again: every batch is one transaction of the node. The audit log has a line for the begin of
an act and one for its end; a begin without an end, which no running act has, is an act that the end of the process
interrupted (``interrupted``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from semq.errors import SemqError
from semq.store.audit import Wanted, lines
from semq.web.pages.visit import Visit

log = structlog.get_logger("semq.console")
KEPT = 50  # acts that a process remembers
LOGGED = "bulk."  # beginning of the names in the audit log
LOOKED_THROUGH = 200  # lines of the audit log
Work = Callable[[Visit, str], AsyncIterator[int]]


@dataclass
class BulkAct:
    """One act on many messages."""

    key: str
    who: str
    act: str  #: a key of ``words.ACTS``
    back: str  #: address of the list from which it was prepared
    total: int
    sample: list[dict[str, Any]]
    work: Work = field(repr=False)  #: yields the size of each finished batch
    chosen: str = ""  #: the filter, for people
    why: str = ""
    done: int = 0
    error: str = ""
    state: str = "prepared"  #: prepared, running, done, failed, stopped
    started_at: int | None = None
    asked: int | None = None  #: number of the line of its begin in the audit log
    _task: asyncio.Task[None] | None = field(default=None, repr=False)

    async def start(self, visit: Visit, why: str, at: int) -> None:
        """Begin, once. Raises StoreUnavailable: then it has not begun."""
        if self.state != "prepared":
            return
        self.state, self.why, self.started_at = "running", why, at
        try:
            facts = {"messages": self.total, "chosen": self.chosen, "why": why}
            self.asked = await visit.note(LOGGED + self.act, facts, outcome="asked")
        except BaseException:
            self.state = "prepared"
            raise
        self._task = asyncio.get_running_loop().create_task(self._run(visit))

    def stop(self) -> None:
        """Stop after the batch in progress; discard a prepared act."""
        if self.state in ("prepared", "running"):
            self.state = "stopped"

    async def _run(self, visit: Visit) -> None:
        try:
            async for count in self.work(visit, self.why):
                self.done += count
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
        facts = {"done": self.done, "of": self.total}
        detail = self.error or ("" if self.state == "done" else self.state)
        try:
            await visit.note(LOGGED + self.act, facts, outcome=outcome, detail=detail, asked=self.asked)
        except SemqError as error:
            log.warning("bulk_act_end_not_noted", act=self.act, state=self.state, **facts, error=str(error))


def by_names(operation: str, names: list[str], batch: int) -> Work:
    """Return the work of an operation on named messages, ``batch`` of them at a time."""

    async def work(visit: Visit, why: str) -> AsyncIterator[int]:
        for place in range(0, len(names), batch):
            part = names[place : place + batch]
            await visit.ask(operation, ids=part, why=why)
            yield len(part)

    return work


_acts: WeakKeyDictionary[Any, dict[str, BulkAct]] = WeakKeyDictionary()


def prepare(visit: Visit, **facts: Any) -> BulkAct:
    """Remember an act that waits for its confirmation."""
    known = _acts.setdefault(visit.web, {})
    for key in [key for key, one in known.items() if one.state != "running"][: max(0, len(known) - KEPT + 1)]:
        del known[key]
    act = BulkAct(key=visit.web.clock.uuid().hex, who=visit.who.name, **facts)
    known[act.key] = act
    return act


def find(visit: Visit, key: str) -> BulkAct | None:
    """Return an act by its key."""
    return _acts.get(visit.web, {}).get(key)


def recent(visit: Visit) -> list[BulkAct]:
    """Return the acts that were started, the newest first."""
    return [act for act in reversed(list(_acts.get(visit.web, {}).values())) if act.state != "prepared"]


async def interrupted(visit: Visit) -> list[dict[str, Any]]:
    """Return the lines of the begin of acts that the end of a process interrupted, the newest first."""
    noted = await visit.read(lines, Wanted(act=LOGGED, limit=LOOKED_THROUGH))
    known = {one.asked for one in _acts.get(visit.web, {}).values()} | {line["asked"] for line in noted}
    return [line for line in noted if line["outcome"] == "asked" and line["number"] not in known]
