"""Scheduled documents in the simulator: the part that releases them, and the oracle's records about them.

The oracle checks that a document is scheduled once, released by a person or when its time has come, and accepted or
cancelled once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from local_node.doors.schedule import POLL_S, ScheduledDocuments
from local_node.doors.sql_submissions import SqlSubmissions
from semq.store.rows import Submitted
from semq.store.unit import Unit
from semq.umx_t.locator import LK0

if TYPE_CHECKING:
    from tests.simulation.host import Host, LocalHost
    from tests.simulation.oracle.oracle import Oracle

AGAIN_S = 1.0  # seconds until waiting rows are read again


class HostEngine:
    """The ``EngineHandle`` of a host."""

    def __init__(self, host: "LocalHost") -> None:
        self._host = host

    @property
    def current(self) -> Any:
        return self._host.engine


class SimulatedDoors:
    """The release of scheduled documents, from one start of a process to its end."""

    def __init__(self, host: "LocalHost") -> None:
        self._host = host
        self._life = host.life
        self._is_armed = False
        engine: Any = HostEngine(host)
        self.submissions = SqlSubmissions(engine, lambda: self._after(AGAIN_S, self.submissions.poll))
        self.schedule = ScheduledDocuments(
            engine, lambda in_s: self._after(in_s, self.schedule.release_due), self.submissions.poll_then
        )

    def begin(self) -> None:
        self._host.engine.acceptance.report_scheduled(self._scheduled)
        if self._host.tables.submitted:
            self.submissions.poll()
            self._poll()

    def _scheduled(self, at: int) -> None:
        self.schedule.note_scheduled(at)
        if not self._is_armed:
            self._poll()

    def _poll(self) -> None:
        """Release due documents regularly while documents wait."""
        self._is_armed = bool(self._host.tables.submitted)
        self.schedule.release_due()
        if self._is_armed:
            self._after(POLL_S, self._poll)

    def _after(self, in_s: float, act: Callable[[], None]) -> None:
        def then() -> None:
            if self._host.is_up(self._life):
                act()
                self._host.plan_tick()

        self._host.world.time.after(in_s, then)


class ScheduleRecords:
    """The oracle's records of the scheduled documents of all nodes."""

    def __init__(self, oracle: "Oracle") -> None:
        self._oracle = oracle
        self.tokens: set[str] = set()  #: tokens of all documents that were ever scheduled
        self.asked: set[tuple[str, int]] = set()  #: documents that a person has asked to release or cancel
        self._waiting: dict[tuple[str, int], Submitted] = {}
        self._names: set[str] = set()
        self._released: set[tuple[str, int]] = set()

    def commits(self, host: "Host", unit: Unit) -> None:
        """Check a unit before it is written; its new rows are in the oracle's records already."""
        if not (unit.new_submissions or unit.due_submissions or unit.taken_submissions or unit.refused_submissions):
            return
        name, now = host.name, host.engine.core.now_ms()
        for number, row in unit.new_submissions.items():
            is_repeated = any((node, other.token) == (name, row.token) for (node, _), other in self._waiting.items())
            self._oracle.demand(not is_repeated, "T", "a token scheduled twice", row.token)
            self.tokens.add(row.token)
            self._waiting[name, number] = row
            self._names.add(row.lk0)
        for number in unit.due_submissions:
            row = self._waiting[name, number]
            # The clock may be set back between the read and the commit.
            due = row.not_before <= now or (name, number) in self.asked or host.clock_was_set
            self._oracle.demand(due, "T", "released before its time", row.token)
            self._released.add((name, number))
        for number, lk0 in unit.taken_submissions.items():
            row = self._waiting.pop((name, number))
            is_explained = (name, number) in (self.asked if str(lk0) == row.lk0 else self._released)
            self._oracle.demand(is_explained, "T", "accepted or cancelled without a reason", row.token)
            if str(lk0) != row.lk0:
                self._accepted(row, lk0)
        for number in unit.refused_submissions:
            self._waiting.pop((name, number), None)

    def is_name_of_scheduled(self, lk0: LK0) -> bool:
        """Whether a scheduled document has waited under this name.

        A repeated submission gets this name as its answer until the document becomes a row of tb_0031.
        """
        return str(lk0) in self._names

    def _accepted(self, row: Submitted, lk0: LK0) -> None:
        """Note that a scheduled document is accepted."""
        messages = self._oracle.groups.messages(lk0)
        self._oracle.demand(bool(messages), "T", "accepted, and no message was made", row.token, "lost")
        for message in messages:
            message.promised = True
            self._oracle.demand(message.payload == row.payload, "T", "sent with other bytes", row.token)

    def restored(self, host: "Host") -> None:
        name = host.name
        self._waiting = {key: row for key, row in self._waiting.items() if key[0] != name}
        self._waiting |= {(name, number): row for number, row in host.tables.submitted.items()}
        self._released |= {(name, number) for number, row in host.tables.submitted.items() if not row.not_before}
