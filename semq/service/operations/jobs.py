"""Operations ``job.list``, ``job.run``, ``job.pause`` and ``job.resume``: the scheduled work of a node.

A pause lasts until the job is resumed or the node ends. Jobs of ``NEVER_PAUSED`` cannot be paused: without them,
messages would stop or be lost, or links of expired or revoked certificates would stay.
"""

from typing import Annotated

import structlog
from msgspec import Meta

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.moments import utc_text_or_none
from semq.service.clockwork import ScheduledJob
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Caller, act, look
from semq.service.operations.ports import OperatedNode

# Job | what it does, for people
DESCRIPTIONS: dict[str, str] = {
    "engine": "inquiries, resends, expiry and cleanup of the queues",
    "database": "checks whether the node's own Postgres runs",
    "requirements": "checks what the node requires of its database, and who hinders it there",
    "credential files": "reads certificates, keys and authorities again after their files have changed",
    "housekeeping": "creates and drops partitions of the ledger, and deletes rows after their retention period",
    "figures": "counts the new lines of the ledger by minute, hour and day",
    "extract": "the nightly extract of the ledger for the reconciliation",
    "alerts": "reports changed health checks to the configured program",
    "sql_submissions": "searches for documents submitted by SQL",
    "schedule": "releases scheduled documents at their time",
    "sql_done": "searches for documents acknowledged by SQL",
    "disk": "stops publishers while the disk is nearly full",
    "certificate": "renews the node's own certificate, and ends links of expired certificates",
    "certificates": "logs which institutions have certificates that end soon",
    "node_stores": "records the store of each node",
    "definitions": "applies definitions imported by another process",
    "revocation": "ends links of revoked certificates",
    "pieces": "sends the pieces of large documents, and the documents whose pieces have arrived",
    "missing": "asks partners which documents a restored store lacks",
    "remains": "deletes pieces that no document needs any more",
    "cluster": "records this instance of the hub, and applies changes of the other instances",
    "authority": "continues a change of the hub's authority",
}
log = structlog.get_logger("semq.jobs")
WHY_MAX = 500  # characters
NEVER_PAUSED = frozenset(
    {"engine", "database", "sql_submissions", "sql_done", "disk", "certificate", "node_stores", "revocation", "cluster"}
)


class ByJob(Arguments, frozen=True, kw_only=True):
    """One job."""

    name: Annotated[str, Meta(min_length=1, max_length=80, description="Name of the job, from job.list.")]


class PauseJob(ByJob, frozen=True, kw_only=True):
    """One job, and the reason of its pause."""

    why: Annotated[str, Meta(max_length=WHY_MAX, pattern=r"\S", description="Reason, shown to all operators.")]


class JobState(OperationAnswer, frozen=True, kw_only=True):
    """A scheduled job: its interval, runs and pause."""

    name: str
    does: str  #: what it does, for people
    every_s: float
    runs: int  #: since the start of the node
    last_at: str | None
    took_s: float  #: the last run
    error: str  #: of the last run; empty: none
    next_at: str | None
    may_pause: bool
    paused_at: str | None
    paused_why: str


class Jobs:
    """The handlers of ``job.*``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def list_all(self, arguments: Arguments) -> list[JobState]:
        """List the scheduled jobs: interval, last run, next run, pause."""
        return [self._described(job) for job in self._node.clockwork.jobs]

    async def run(self, arguments: ByJob, caller: Caller) -> JobState:
        """Run a job now, even if it is due later. The result of the run is in ``job.list``."""
        job = self._job_named(arguments.name)
        if self._node.clockwork.records[job.name].paused_at is not None:
            raise BadArguments("The job is paused: resume it first.", name=job.name)
        if job.make_due is not None:
            job.make_due()
        self._node.clockwork.hasten(job.name)
        return self._described(job)

    async def pause(self, arguments: PauseJob, caller: Caller) -> JobState:
        """Pause a job until it is resumed, or the node ends."""
        job = self._job_named(arguments.name)
        if job.name in NEVER_PAUSED:
            raise BadArguments("The node needs this job: it cannot be paused.", name=job.name)
        record = self._node.clockwork.records[job.name]
        record.paused_at, record.pause_reason = self._node.clock.wall(), arguments.why.strip()
        log.warning("job_paused", job=job.name, by=caller.user, why=record.pause_reason)
        return self._described(job)

    async def resume(self, arguments: ByJob, caller: Caller) -> JobState:
        """Resume a paused job."""
        job = self._job_named(arguments.name)
        record = self._node.clockwork.records[job.name]
        record.paused_at, record.pause_reason = None, ""
        log.info("job_resumed", job=job.name, by=caller.user)
        return self._described(job)

    def _job_named(self, name: str) -> ScheduledJob:
        for job in self._node.clockwork.jobs:
            if job.name == name:
                return job
        raise BadArguments("The node has no job of this name; job.list lists its jobs.", name=name[:80])

    def _described(self, job: ScheduledJob) -> JobState:
        record, next_at = self._node.clockwork.records[job.name], self._node.clockwork.next_run(job)
        return JobState(
            name=job.name,
            does=DESCRIPTIONS.get(job.name, ""),
            every_s=job.every_s,
            runs=record.runs,
            last_at=utc_text_or_none(record.last_at),
            took_s=round(record.took_s, 3),
            error=record.error,
            next_at=utc_text_or_none(next_at),
            may_pause=job.name not in NEVER_PAUSED,
            paused_at=utc_text_or_none(record.paused_at),
            paused_why=record.pause_reason,
        )


JOBS = (
    look("job.list", AccessRole.VIEWER, Arguments, Jobs.list_all, "the console and the HTTP API"),
    act("job.run", AccessRole.ADMIN, ByJob, Jobs.run, "the console and the HTTP API"),
    act("job.pause", AccessRole.ADMIN, PauseJob, Jobs.pause, "the console and the HTTP API"),
    act("job.resume", AccessRole.ADMIN, ByJob, Jobs.resume, "the console and the HTTP API"),
)
