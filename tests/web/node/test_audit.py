"""Deferred lines of the audit log: written again after an outage, dropped if the database cannot store them."""

from collections.abc import Sequence
from typing import Any

from semq.clock import SystemClock
from semq.errors import SemqError
from semq.store.audit import Line
from semq.store.postgres.errors import StoreUnavailable
from semq.web.errors import BadRequest
from semq.web.node.audit import Audit
from tests.waiting import until


class FailingDatabase:
    """A database whose next writes fail with the given errors, one after the other."""

    def __init__(self, *failures: type[SemqError]) -> None:
        self.failures = list(failures)
        self.users: list[str] = []

    async def write(self, change: Any, lines: Sequence[Line]) -> list[int]:
        if self.failures:
            raise self.failures.pop(0)
        self.users += [line.who for line in lines]
        return list(range(len(lines)))


def audit_log(database: Any) -> Audit:
    return Audit(database, SystemClock())


async def test_deferred_lines_are_written_after_an_outage() -> None:
    database = FailingDatabase(StoreUnavailable, StoreUnavailable)
    audit = audit_log(database)
    audit.note_soon("ann", "token", "127.0.0.1", "document.submit", {}, "done")
    await until(lambda: database.users == ["ann"])
    await audit.close()


async def test_a_line_that_cannot_be_stored_does_not_delay_other_lines() -> None:
    database = FailingDatabase(BadRequest, BadRequest)  # the write of the batch, then that of its first line
    audit = audit_log(database)
    for user in ("ann", "cat"):
        audit.note_soon(user, "token", "127.0.0.1", "document.submit", {}, "done")
    await until(lambda: database.users == ["cat"])
    audit.note_soon("bob", "token", "127.0.0.1", "document.submit", {}, "done")
    await until(lambda: database.users == ["cat", "bob"])
    await audit.close()
