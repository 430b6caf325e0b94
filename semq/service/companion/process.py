"""The main function of a companion: a program that serves applications, and speaks AMQP to its node.

It runs until SIGTERM or SIGINT. If the node has started it (``--with-parent``), it ends with the node: its standard
input is a pipe that closes when the node ends.
"""

import argparse
import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import structlog

from semq.config import load
from semq.config.reach import url_of
from semq.config.settings import Settings
from semq.errors import SemqError, Unavailable
from semq.service.log import set_up
from semq.service.nightly_extract import DATABASE_VARIABLE
from semq.service.process import EXIT_OK, exit_status

log = structlog.get_logger("semq.companion")
AsyncAction = Callable[[], Coroutine[object, object, None]]
Serve = Callable[[Settings, str, AsyncAction], Coroutine[object, object, None]]

# Environment variable with the URL of the node. Default: the host and port of the configuration.
NODE_VARIABLE = "SEMQ_NODE"
# variables that are not settings, although their names look like those of settings
NO_SETTINGS = (NODE_VARIABLE, DATABASE_VARIABLE)
WITH_PARENT = "--with-parent"
RETRY_S = 1.0


def main(
    program: str,
    description: str,
    serve: Serve,
    argv: list[str] | None = None,
    run: Callable[[Coroutine[object, object, None]], None] = asyncio.run,
) -> int:
    """Run ``serve(settings, url of the node, function that waits for the end)``; return the exit status.

    ``run`` runs a coroutine in a new event loop.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, prog=program, description=description)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's TOML file")
    parser.add_argument(WITH_PARENT, action="store_true", help="end when standard input ends")
    parser.add_argument("--institution", metavar="ID", help="one institution of a file with several")
    arguments = parser.parse_args(argv)
    try:
        settings = load(
            arguments.config,
            {name: value for name, value in os.environ.items() if name not in NO_SETTINGS},
            arguments.institution,
        )
        set_up(settings.log, f"{settings.node.umx_type}.{settings.node.id}")
        url = os.environ.get(NODE_VARIABLE) or url_of(settings)
        run(serve(settings, url, _wait_for_stop(arguments.with_parent)))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, program)
    return EXIT_OK


def _wait_for_stop(with_parent: bool) -> AsyncAction:

    async def wait_for_stop() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, stop.set)
        if with_parent:
            loop.add_reader(0, lambda: stop.set() if not os.read(0, 1) else None)
        await stop.wait()

    return wait_for_stop


async def run_until_stop(wait_for_stop: AsyncAction, actions: Sequence[AsyncAction]) -> None:
    """Run actions until ``wait_for_stop`` or an action ends. Raises the error of an action.

    An action that raises Unavailable is started again after ``RETRY_S``.
    """
    stop = asyncio.ensure_future(wait_for_stop())
    tasks = [asyncio.ensure_future(_repeat_while_unavailable(action)) for action in actions]
    try:
        await asyncio.wait((stop, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in (stop, *tasks):
            task.cancel()
        await asyncio.gather(stop, *tasks, return_exceptions=True)


async def _repeat_while_unavailable(action: AsyncAction) -> None:
    while True:
        try:
            await action()
            return
        except Unavailable as error:
            log.warning("node_away", error=str(error), again_in_s=RETRY_S)
        await asyncio.sleep(RETRY_S)
