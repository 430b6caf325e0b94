"""Alerts: the node starts a program of the operator when a health check changes.

The program gets one JSON object on standard input: ``node``, ``check``, ``verdict`` (ok, warning, failing), ``before``,
``detail``, ``since`` and ``at`` (RFC 3339). A change, also to ok, is reported when it has lasted ``alerts.after_s``. A
program that fails, or is killed after ``PROGRAM_S_MAX``, is started again until it succeeds or the verdict changes.
Reported alerts are not stored: after its start, a node reports every check that is not ok.
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from os import SEEK_END
from tempfile import TemporaryFile

import msgspec
import structlog
from msgspec import Struct

from semq.answers.status import Check
from semq.clock import Clock
from semq.config.sections import AlertsSection as AlertSettings
from semq.foreign_text import shortened, shown
from semq.moments import utc_text
from semq.service.clockwork import ScheduledJob
from semq.service.monitoring.health import OK
from semq.umx_t import retry

log = structlog.get_logger("semq.alerts")
CHECK_S = 5.0  # between two comparisons of the checks
PROGRAM_S_MAX = 30.0  # longest run of the program
RETRY_S_MIN, RETRY_S_MAX = 5.0, 300.0
ERRORS_MAX = 4096  # bytes read from the end of the program's standard error


class _Change(Struct):
    """An unreported change of a check's verdict."""

    verdict: str
    since: datetime
    report_at: float  #: monotonic time of the next attempt to report it
    failures: int = 0  #: failed attempts


class Alerts:
    """The alerts of one node."""

    def __init__(
        self,
        node: str,
        settings: AlertSettings,
        clock: Clock,
        checks: Callable[[], Awaitable[list[Check]]],
    ) -> None:
        """``checks`` makes the health checks."""
        self._node = node
        self.settings = settings
        self._clock = clock
        self._checks = checks
        self._reported: dict[str, str] = {}  #: last reported verdict by check; without an entry: ok
        self._changes: dict[str, _Change] = {}  #: by check
        self._process: Process | None = None
        self._is_stopping = False

    def jobs(self) -> list[ScheduledJob]:
        return [ScheduledJob("alerts", CHECK_S, self.check)]

    async def check(self) -> None:
        """Report changes that have lasted long enough, if a program is configured."""
        if not self.settings.command:
            return
        checks = {check.name: check for check in await self._checks()}
        # If the store is the only check, the status could not be read.
        if checks.keys() != {"store"}:
            # Some checks exist only while their verdict is not ok.
            for name in self._reported.keys() - checks.keys():
                checks[name] = Check(name, OK)
            for name in self._changes.keys() - checks.keys():
                del self._changes[name]
        for check in checks.values():
            await self._report_change(check)

    async def _report_change(self, check: Check) -> None:
        if self._is_stopping:
            return
        verdict_before, now = self._reported.get(check.name, OK), self._clock.monotonic()
        if check.verdict == verdict_before:
            self._changes.pop(check.name, None)
            return
        change = self._changes.get(check.name)
        if change is None or change.verdict != check.verdict:
            change = _Change(check.verdict, self._clock.wall(), now + self.settings.after_s)
            self._changes[check.name] = change
        if now < change.report_at:
            return
        if await self._send_alert(check, verdict_before, change):
            self._reported[check.name] = check.verdict
            del self._changes[check.name]
        else:
            change.failures += 1
            change.report_at = now + retry.backoff(change.failures, RETRY_S_MIN, RETRY_S_MAX, 0.5)

    async def _send_alert(self, check: Check, verdict_before: str, change: _Change) -> bool:
        alert = {
            "node": self._node,
            "check": check.name,
            "verdict": check.verdict,
            "before": verdict_before,
            "detail": shown(check.detail),  # the program may print or mail the detail
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
        # Variables of SEMQ may contain passwords.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")}
        # Not a pipe: it would stay open as long as any child of the program holds it.
        with TemporaryFile() as errors:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.settings.command, stdin=PIPE, stdout=DEVNULL, stderr=errors, env=variables
            )
            try:
                if self._is_stopping:  # `stop` was called while the program was being started
                    await self._end()
                async with asyncio.timeout(PROGRAM_S_MAX):
                    await _write(process, alert)
                    await process.wait()
            except TimeoutError:
                await self._end()
                return f"it did not end within {PROGRAM_S_MAX:.0f} s"
            finally:
                self._process = None
            if not process.returncode:
                return ""
            errors.seek(max(errors.seek(0, SEEK_END) - ERRORS_MAX, 0))
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"status {process.returncode}: {shortened(lines[-1], 200) if lines else ''}"

    async def stop(self) -> None:
        """Stop a running program and start no other."""
        self._is_stopping = True
        await self._end()

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def _write(process: Process, alert: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # the program may ignore its input
        process.stdin.write(alert)
        await process.stdin.drain()
    process.stdin.close()
