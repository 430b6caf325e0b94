"""A node as an operating-system process: start, the line ``ready`` or the reason of a failure, the end on a signal."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import structlog
import uvloop

from semq.clock import Clock, SystemClock
from semq.config import load
from semq.config.defaults import PREFIX
from semq.config.service_links import service_links
from semq.config.settings import Settings
from semq.errors import Misconfigured, SemqError, unusable_path_of
from semq.foreign_text import shown
from semq.service.log import set_up

log = structlog.get_logger("semq.process")

CLIENT_VARIABLE = "SEMQ_NODE"  # a variable of the command line, not a key of section [node]
# Exit statuses of a node process; those of sysexits.h where it has a fitting one.
EXIT_OK, EXIT_CONFIG, EXIT_UNAVAILABLE = 0, 78, 69
STANDBY_CHECK_S = 0.5  # between two checks whether a node that must end during its start is a standby
COLLECTOR_THRESHOLDS = (20_000, 20, 50)  # of three generations


class WrongKind(Misconfigured):
    """The configuration describes a node of the other kind."""

    code = "SEMQ-2005"
    remedy = "`semq node run` starts the kind that the file names. Otherwise name another file."


class Runnable(Protocol):
    """A node as this module uses it."""

    async def start(self) -> None:
        """Start; return when the node serves. Raises SemqError."""

    async def wait_failed(self) -> None:
        """Wait until the node cannot continue; raise the reason."""

    async def stop(self) -> None:
        """Finish work in progress and end."""

    def reload_soon(self) -> None:
        """Reload the configuration; the result goes to the log."""

    @property
    def endpoint(self) -> str:
        """HOST:PORT of the listening AMQP endpoint."""

    @property
    def is_standing_by(self) -> bool:
        """Whether ``start`` waits until another process of the same node has ended."""


def main(kind: str, make: Callable[[Settings, Clock], Runnable], argv: list[str] | None = None) -> int:
    """Run a node of a kind (``platform``, ``local``), made by ``make``, in the foreground; return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog=f"semq {kind} run", description=f"Run a {kind} node in the foreground."
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's TOML file")
    arguments = parser.parse_args(argv)
    try:
        settings = load(
            arguments.config, {name: value for name, value in os.environ.items() if name != CLIENT_VARIABLE}
        )
        if settings.node.kind != kind:
            raise WrongKind(f"{arguments.config} describes a {settings.node.kind} node, not a {kind} node.")
        set_up(settings.log, f"{settings.node.umx_type}.{settings.node.id}")
        log_service_links(os.environ)
        uvloop.run(run(make(settings, SystemClock())))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, "semq")
    return EXIT_OK


def log_service_links(variables: Mapping[str, str]) -> None:
    """Log the variables that look like settings and are ignored, because Kubernetes has set them."""
    if ignored := service_links({name: value for name, value in variables.items() if name.startswith(PREFIX)}):
        log.info("service_links_ignored", variables=ignored)


def exit_status(error: SemqError | KeyboardInterrupt | OSError, program: str) -> int:
    """Return the exit status for an error, and print its advice; an interrupt is a normal end.

    An unusable path counts as an error of configuration. Another OSError is raised again.
    """
    if isinstance(error, KeyboardInterrupt):
        return EXIT_OK
    if isinstance(error, OSError):
        unusable_path = unusable_path_of(error)
        if unusable_path is None:
            raise error
        error = unusable_path
    text = " ".join(error.advice().split())  # in one line, also several faults of a configuration
    print(f"{program}: {shown(text)}", file=sys.stderr)
    return EXIT_CONFIG if isinstance(error, Misconfigured) else EXIT_UNAVAILABLE


def tune_garbage_collector() -> None:
    """Exclude the present objects from garbage collection, and collect less often.

    Under load the collector would often visit thousands of documents in progress and free none.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def run(node: Runnable) -> None:
    """Start a node, print ``ready`` with its endpoint, serve until a signal or a failure, stop it."""
    stop_requested = asyncio.Event()
    has_started = False
    start = asyncio.ensure_future(node.start())

    def request_stop() -> None:
        stop_requested.set()
        if node.is_standing_by:
            start.cancel()
        elif not start.done():  # the node may still become a standby
            loop.call_later(STANDBY_CHECK_S, request_stop)

    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, request_stop)
    if not os.isatty(0):  # with a terminal, SIGHUP ends the process
        loop.add_signal_handler(signal.SIGHUP, node.reload_soon)
    try:
        try:
            await start
        except asyncio.CancelledError:
            if not stop_requested.is_set():
                raise
            log.info("stopping")
            return
        has_started = True
        tune_garbage_collector()
        print(f"ready {node.endpoint}", flush=True)
        log.info("ready", endpoint=node.endpoint)
        signalled = asyncio.create_task(stop_requested.wait())
        failed = asyncio.create_task(node.wait_failed())
        await asyncio.wait((signalled, failed), return_when=asyncio.FIRST_COMPLETED)
        signalled.cancel()
        if failed.done():
            failed.result()
        else:
            failed.cancel()
            log.info("stopping")
    finally:
        await node.stop()
        if has_started:
            log.info("stopped")
