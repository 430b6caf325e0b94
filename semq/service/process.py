"""A node as an operating-system process: starts, prints ``ready`` or the reason it cannot, drains on a signal."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog
import uvloop

from semq.clock import Clock, SystemClock
from semq.config import load
from semq.config.settings import Settings
from semq.errors import Misconfigured, SemqError, unusable
from semq.foreign_text import shown
from semq.service.log import set_up

log = structlog.get_logger("semq.process")

CLIENTS_OWN = "SEMQ_NODE"  # names a node for the command line; the keys of section [node] have longer names
# Exit statuses of a node process (sysexits.h where it has one).
EXIT_OK, EXIT_CONFIG, EXIT_UNAVAILABLE = 0, 78, 69
COLLECTOR = (20_000, 20, 50)  # new objects before the youngest are looked at, and how often the older ones


class WrongKind(Misconfigured):
    """The configuration describes a node of the other kind."""

    code = "SEMQ-2005"
    remedy = "Start it with the other command (`semq platform run` or `semq local run`), or give the other file."


class Runnable(Protocol):
    """A node that can be started, waited for and stopped."""

    async def start(self) -> None:
        """Until it serves. Raises SemqError if it cannot."""

    async def wait_failed(self) -> None:
        """Returns or raises only if the node cannot go on."""

    async def stop(self) -> None:
        """Drain and end, in order."""

    def reload_soon(self) -> None:
        """Read the configuration again, as far as it can change in a life; the log has the outcome."""

    @property
    def endpoint(self) -> str:
        """HOST:PORT of its AMQP endpoint, as it listens."""

    @property
    def is_standing_by(self) -> bool:
        """Whether ``start`` waits until another process of the same node has ended."""


def main(kind: str, make: Callable[[Settings, Clock], Runnable], argv: list[str] | None = None) -> int:
    """Run a node of one kind in the foreground; the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog=f"semq {kind} run", description=f"Run a {kind} node in the foreground."
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's TOML file")
    arguments = parser.parse_args(argv)
    try:
        settings = load(arguments.config, {name: value for name, value in os.environ.items() if name != CLIENTS_OWN})
        if settings.node.kind != kind:
            raise WrongKind(f"{arguments.config} describes a {settings.node.kind} node, not a {kind} node.")
        set_up(settings.log, f"{settings.node.umx_type}.{settings.node.id}")
        uvloop.run(run(make(settings, SystemClock())))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, "semq")
    return EXIT_OK


def exit_status(error: SemqError | KeyboardInterrupt | OSError, program: str) -> int:
    """How a node process ends that cannot start or go on, its advice printed; an interrupt is an ordinary end.

    A path that the system refuses is a matter of configuration. Raises any other OSError again.
    """
    if isinstance(error, KeyboardInterrupt):
        return EXIT_OK
    if isinstance(error, OSError):
        known = unusable(error)
        if known is None:
            raise error
        error = known
    print(f"{program}: {shown(error.advice())}", file=sys.stderr)
    return EXIT_CONFIG if isinstance(error, Misconfigured) else EXIT_UNAVAILABLE


def spare_the_collector() -> None:
    """Let the garbage collector pass over what lives as long as the node, and look less often at what is new: under
    load thousands of documents are under way, none of which is garbage before it is settled."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR)


async def run(node: Runnable) -> None:
    """Start a node, print ``ready`` with its endpoint, serve until a signal or a failure, stop it."""
    stop = asyncio.Event()
    started = False
    starting = asyncio.ensure_future(node.start())

    def end() -> None:
        stop.set()
        if node.is_standing_by:
            starting.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    if not os.isatty(0):  # whoever closes the terminal of a node wants it to end
        loop.add_signal_handler(signal.SIGHUP, node.reload_soon)
    try:
        try:
            await starting
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            log.info("stopping")
            return
        started = True
        spare_the_collector()
        print(f"ready {node.endpoint}", flush=True)
        log.info("ready", endpoint=node.endpoint)
        stopped = asyncio.create_task(stop.wait())
        failed = asyncio.create_task(node.wait_failed())
        await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if failed.done():
            failed.result()
        else:
            failed.cancel()
            log.info("stopping")
    finally:
        await node.stop()
        if started:
            log.info("stopped")
