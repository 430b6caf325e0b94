"""The frame of a companion: a program beside a node that serves applications and speaks AMQP to the node.

It reads the node's configuration, finds the node, and runs its jobs until a signal. Started by the node
(``program``), it ends with the node, because its standard input ends then. Used by the main functions of
``semq.folders``, ``semq.webhooks`` and ``semq.web``.
"""

import argparse
import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import structlog

from semq.config import load
from semq.config.reach import url_of
from semq.config.settings import Settings
from semq.errors import SemqError, Unavailable
from semq.service.log import set_up
from semq.service.nightly_extract import DATABASE_VARIABLE
from semq.service.process import EXIT_OK, exit_status

log = structlog.get_logger("semq.companion")
Job = Callable[[], Coroutine[Any, Any, None]]
Serve = Callable[[Settings, str, Job], Coroutine[Any, Any, None]]

NODE_VARIABLE = "SEMQ_NODE"  # the URL of the running node, if the port in the configuration is not the one in use
OWN_VARIABLES = (NODE_VARIABLE, DATABASE_VARIABLE)  # not settings, although their names have the form of settings
WITH_PARENT = "--with-parent"
AGAIN_S = 1.0


def main(
    program: str,
    description: str,
    serve: Serve,
    argv: list[str] | None = None,
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> int:
    """Run ``serve(settings, url of the node, function that waits for the end)``; return the exit status."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog=program, description=description)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's TOML file")
    parser.add_argument(WITH_PARENT, action="store_true", help="end when standard input ends")
    parser.add_argument("--institution", metavar="ID", help="one institution of a file with several")
    arguments = parser.parse_args(argv)
    try:
        settings = load(
            arguments.config,
            {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES},
            arguments.institution,
        )
        set_up(settings.log, f"{settings.node.umx_type}.{settings.node.id}")
        url = os.environ.get(NODE_VARIABLE) or url_of(settings)
        run(serve(settings, url, _stop_of(arguments.with_parent)))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, program)
    return EXIT_OK


def _stop_of(with_parent: bool) -> Job:
    async def stopped() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if with_parent:
            loop.add_reader(0, lambda: stop.set() if not os.read(0, 1) else None)
        await stop.wait()

    return stopped


async def until(stopped: Job, jobs: Sequence[Job]) -> None:
    """Run jobs until ``stopped`` returns or one of them fails. Raises the errors of the jobs, except that a job is
    repeated while the node is not available.
    """
    ended = asyncio.ensure_future(stopped())
    tasks = [asyncio.ensure_future(_patiently(job)) for job in jobs]
    try:
        await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in (ended, *tasks):
            task.cancel()
        await asyncio.gather(ended, *tasks, return_exceptions=True)


async def _patiently(job: Job) -> None:
    """Run a job again as long as the node is not available."""
    while True:
        try:
            await job()
            return
        except Unavailable as error:
            log.warning("node_away", error=str(error), again_in_s=AGAIN_S)
        await asyncio.sleep(AGAIN_S)
