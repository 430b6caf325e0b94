"""A program that a node keeps running: started with the node, restarted when it ends, stopped with the node.

Its standard input is a pipe from the node, which closes when the node ends. On its standard output the program reports
the states of its sections (``section_states``), unless it ``shares_output``. Its log lines go to the node's standard
error.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog
from msgspec import Struct

from semq.answers.status import CompanionStatus
from semq.clock import Clock
from semq.service.companion.section_states import ReportedStates
from semq.umx_t import retry

log = structlog.get_logger("semq.companion")

RESTART_S_MIN, RESTART_S_MAX = 1.0, 60.0
GRACE_S = 20.0  # from SIGTERM to SIGKILL


class CompanionModule(Struct, frozen=True):
    """The module of a companion, and its resources."""

    module: str
    shares_output: bool = False  #: the program writes to the standard output of the node
    reads_database: bool = False  #: the program gets the URL of the node's database


class Companion:
    """A program that is kept running: ``python -P -m MODULE ARGUMENTS``."""

    def __init__(
        self,
        program: CompanionModule,
        arguments: Sequence[str],
        environment: Callable[[], Mapping[str, str]],
        clock: Clock,
    ) -> None:
        """``environment`` returns variables with values that only the running node has, such as its port."""
        self._program = program
        self._arguments = arguments
        self._environment = environment
        self._clock = clock
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None  #: ends the program for ``restart``; it is not started again yet
        self.starts = 0
        self.exit_status: int | None = None  #: of the last ended run
        self.states = ReportedStates()  #: the reports of the running program

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def status(self) -> CompanionStatus:
        return CompanionStatus(
            running=self.is_running,
            starts=self.starts,
            exit=self.exit_status,
            failing=dict(sorted(self.states.failing.items())),
            counts=dict(self.states.counts),
        )

    def start(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def restart(self) -> None:
        """End the program, which then starts again at once. Do not wait for that."""
        if self.is_running and self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())

    async def stop(self) -> None:
        """End the program for good."""
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._end()

    async def _end(self) -> None:
        """End the program: by SIGTERM, and by SIGKILL if it takes longer than GRACE_S."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):  # it has ended
            process.terminate()
            try:
                async with asyncio.timeout(GRACE_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _run(self) -> None:
        failures = 0
        facts: dict[str, object]
        while True:
            began = self._clock.monotonic()
            try:
                self._process = await self._spawn()
                self.starts += 1
                if self._process.stdout is not None:
                    await self._read_states(self._process.stdout)
                self.exit_status = await self._process.wait()
                facts = {"exit_status": self.exit_status}
            except OSError as error:  # no memory, too many processes
                facts = {"error": str(error)}
            self.states = ReportedStates()
            if self._ending is not None:
                self._ending, failures = None, 0
                log.info("companion_restarted", module=self._program.module)
                continue
            failures = 1 if self._clock.monotonic() - began > RESTART_S_MAX else failures + 1
            pause_s = retry.backoff(failures, RESTART_S_MIN, RESTART_S_MAX, self._clock.random())
            log.error(
                "companion_not_started" if "error" in facts else "companion_ended",
                module=self._program.module, **facts, again_in_s=round(pause_s, 1),
            )  # fmt: skip
            await asyncio.sleep(pause_s)

    async def _read_states(self, output: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await output.readline()
            except ValueError:  # the line is too long
                continue
            if not line:
                return
            self.states.update(line)

    async def _spawn(self) -> Process:
        variables = dict(os.environ) | dict(self._environment())
        return await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", self._program.module, *self._arguments,
            stdin=PIPE, stdout=None if self._program.shares_output else PIPE, env=variables,
        )  # fmt: skip
