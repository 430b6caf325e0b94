"""Alerts: the node starts a program of the operator when a health check changes.

The program gets one JSON object on standard input: ``node``, ``check``, ``verdict`` (ok, warning, failing), ``before``,
``detail``, ``since`` and ``at`` (RFC 3339). A change is reported after ``alerts.after_s``, so that a short loss of the
link causes no alert; the recovery is reported, too. A program that fails or hangs is started again until it ends with
status 0. Reported alerts are not stored: a started node reports every check that is not ok.
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from os import SEEK_END
from tempfile import TemporaryFile

import msgspec
import structlog

from semq.clock import Clock
from semq.config.sections import AlertsSection as AlertSettings
from semq.foreign_text import shortened, shown
from semq.moments import utc_text
from semq.service.clockwork import ScheduledJob
from semq.service.monitoring.health import OK, Check
from semq.umx_t import retry

log = structlog.get_logger("semq.alerts")
CHECK_S = 5.0
PATIENCE_S = 30.0  # for the program
RETRY_S_MIN, RETRY_S_MAX = 5.0, 300.0
ERRORS_MAX = 4096  # bytes read of its standard error


@dataclass(slots=True)
class _Change:
    """A verdict that differs from the reported one."""

    verdict: str
    since: datetime
    reported_at: float  #: monotonic: not before
    failures: int = 0


class Alerts:
    """The alerts of one node."""

    def __init__(
        self,
        node: str,
        settings: Callable[[], AlertSettings],
        clock: Clock,
        checks: Callable[[], Awaitable[list[Check]]],
    ) -> None:
        """``settings``: returns the settings in force, which a reload may change."""
        self._node = node
        self._settings = settings
        self._clock = clock
        self._checks = checks
        self._reported: dict[str, str] = {}  #: last verdict by check; ok where there is none
        self._changes: dict[str, _Change] = {}
        self._process: Process | None = None
        self._is_stopping = False

    def jobs(self) -> list[ScheduledJob]:
        """Return the job for the schedule."""
        return [ScheduledJob("alerts", CHECK_S, self.check)]

    async def check(self) -> None:
        """Report changes that have lasted long enough, if a program is configured."""
        if not self._settings().command:
            return
        found = {one.name: one for one in await self._checks()}
        if found.keys() != {"store"}:  # otherwise only the store could be checked
            for name in (
                self._reported.keys() - found.keys()
            ):  # some checks exist only while there is something to report
                found[name] = Check(name, OK)
            for name in self._changes.keys() - found.keys():
                del self._changes[name]
        for one in found.values():
            await self._check(one)

    async def _check(self, one: Check) -> None:
        if self._is_stopping:
            return
        before, now = self._reported.get(one.name, OK), self._clock.monotonic()
        if one.verdict == before:
            self._changes.pop(one.name, None)
            return
        change = self._changes.get(one.name)
        if change is None or change.verdict != one.verdict:
            change = self._changes[one.name] = _Change(one.verdict, self._clock.wall(), now + self._settings().after_s)
        if now < change.reported_at:
            return
        if await self._report(one, before, change):
            self._reported[one.name] = one.verdict
            del self._changes[one.name]
        else:
            change.failures += 1
            change.reported_at = now + retry.backoff(change.failures, RETRY_S_MIN, RETRY_S_MAX, 0.5)

    async def _report(self, one: Check, before: str, change: _Change) -> bool:
        alert = {
            "node": self._node,
            "check": one.name,
            "verdict": one.verdict,
            "before": before,
            "detail": shown(one.detail),  # a program may print it, or mail it
            "since": utc_text(change.since),
            "at": utc_text(self._clock.wall()),
        }
        try:
            fault = await self._run(msgspec.json.encode(alert) + b"\n")
        except OSError as error:
            fault = str(error)
        facts = {name: alert[name] for name in ("check", "verdict", "detail")}
        if fault:
            log.error("alert_not_sent", fault=fault, failures=change.failures + 1, **facts)
        else:
            log.info("alert_sent", **facts)
        return not fault

    async def _run(self, alert: bytes) -> str:
        """Run the program; return its failure, empty if it succeeded. Raises OSError if it cannot be started."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")}  # passwords are there
        # Standard error goes to a file: a pipe would stay open as long as any child of the program holds it.
        with TemporaryFile() as errors:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._settings().command, stdin=PIPE, stdout=DEVNULL, stderr=errors, env=own
            )
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await _say(process, alert)
                    await process.wait()
            except TimeoutError:
                await self._end()
                return f"it did not end within {PATIENCE_S:.0f} s"
            finally:
                self._process = None
            errors.seek(max(errors.seek(0, SEEK_END) - ERRORS_MAX, 0))
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
        return (
            f"status {process.returncode}: {shortened(lines[-1], 200) if lines else ''}" if process.returncode else ""
        )

    async def stop(self) -> None:
        """Stop a running program, because the node stops."""
        self._is_stopping = True
        await self._end()

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def _say(process: Process, alert: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # the program may ignore its input
        process.stdin.write(alert)
        await process.stdin.drain()
    process.stdin.close()
