"""Acts on many messages: the set is frozen when it is prepared, counted, confirmed with a reason, and worked off in
batches with progress; it can be stopped between two batches.

The work goes on in the web process when the page is closed. If that process ends, what was not done stays as it was,
and the act can be prepared anew: every batch is one transaction of the node.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from semq.errors import SemqError
from semq.web.visit import Visit

KEPT = 50  # acts that a process remembers
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
    _task: asyncio.Task[None] | None = field(default=None, repr=False)

    def start(self, visit: Visit, why: str, at: int) -> None:
        """Begin, once."""
        if self.state == "prepared":
            self.state, self.why, self.started_at = "running", why, at
            self._task = asyncio.get_running_loop().create_task(self._run(visit))

    def stop(self) -> None:
        """End after the batch in progress; of a prepared act: give it up."""
        if self.state in ("prepared", "running"):
            self.state = "stopped"

    async def _run(self, visit: Visit) -> None:
        try:
            async for count in self.work(visit, self.why):
                self.done += count
                if self.state != "running":
                    return
            self.state = "done"
        except SemqError as error:
            self.state, self.error = "failed", str(error)


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
