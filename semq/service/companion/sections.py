"""Sections of a companion ([[folders]], [[webhooks]]): each runs independently, and its failures are reported.

A failing section is reported to the node (``section_states``) and started again after a pause.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog

from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.errors import SemqError, Unavailable
from semq.service.companion import process as companion_process
from semq.service.companion.process import WITH_PARENT, AsyncAction
from semq.service.companion.section_states import SectionStates
from semq.umx_t import retry

log = structlog.get_logger("semq.companion")

PATIENCE_S = 60.0  # longest time that an operation waits for an answer of the node
QUEUE_EXPIRES_S = 30 * 24 * 3600  # time without a consumer after which a section's queue of events is deleted
RETRY_S_MIN, RETRY_S_MAX = 1.0, 60.0  # pause before a failed section starts again
STDOUT = 1  # file descriptor: a pipe to the node

Serve = Callable[[Settings, str, AsyncAction, SectionStates], Coroutine[object, object, None]]


class CompanionSection(NamedTuple):
    """A part of a companion that fails and recovers independently of the other parts."""

    name: str
    run: Callable[[Callable[[], None]], Coroutine[object, None, None]]  #: must call its argument after each success


def main(program: str, description: str, serve: Serve, argv: list[str] | None = None) -> int:
    """Run ``serve(settings, url of the node, function that waits for the end, states)``; return the exit status."""
    has_parent = WITH_PARENT in (sys.argv if argv is None else argv)
    states = SectionStates(_report if has_parent else lambda line: None, SystemClock())

    async def serve_with_states(settings: Settings, url: str, wait_for_stop: AsyncAction) -> None:
        await serve(settings, url, wait_for_stop, states)

    return companion_process.main(program, description, serve_with_states, argv)


def _report(line: bytes) -> None:
    with suppress(OSError):  # the node has ended
        os.write(STDOUT, line)


async def run_until_stop(
    wait_for_stop: AsyncAction,
    sections: Sequence[CompanionSection],
    states: SectionStates,
    fatal: tuple[type[SemqError], ...] = (),
) -> None:
    """Run sections until ``wait_for_stop`` returns or all sections have ended. Raises ``fatal`` errors of a section."""
    stop = asyncio.ensure_future(wait_for_stop())
    serving = asyncio.ensure_future(run_all(sections, states, fatal))
    try:
        await asyncio.wait((stop, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        stop.cancel()
        serving.cancel()
        await asyncio.gather(stop, serving, return_exceptions=True)


async def run_all(
    sections: Sequence[CompanionSection], states: SectionStates, fatal: tuple[type[SemqError], ...]
) -> None:
    """Run sections until all have ended. Raises the first ``fatal`` error of a section."""
    tasks = [asyncio.ensure_future(_keep_running(section, states, fatal)) for section in sections]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_running(section: CompanionSection, states: SectionStates, fatal: tuple[type[SemqError], ...]) -> None:
    failures = 0

    def on_success() -> None:
        nonlocal failures
        failures = 0
        states.succeeded(section.name)

    while True:
        try:
            await section.run(on_success)
            return
        except fatal:
            raise
        except Exception as error:
            failures += 1
            pause_s = retry.backoff(failures, RETRY_S_MIN, RETRY_S_MAX, SystemClock().random())
            states.failed(section.name, error)
            facts = {"section": section.name, "again_in_s": round(pause_s, 1)}
            if isinstance(error, SemqError):
                log_failure = log.warning if isinstance(error, Unavailable) else log.error
                log_failure("section_failed", error=error.advice(), **facts)
            else:
                log.exception("section_failed", **facts)
        await asyncio.sleep(pause_s)
