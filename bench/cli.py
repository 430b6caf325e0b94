"""Common parts of the commands of ``./run bench``: arguments, output, and termination without leftovers.

Standard output has one JSON object for each measurement, and at the end a summary or, with ``--json``, one object with
the figures. Standard error has the progress. Exit status: 0 with figures, 1 without (``bench.errors``), 2 for wrong
arguments, 130 when interrupted, 143 where ``exit_on_sigterm`` handles SIGTERM.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bench.errors import NoFigures
from bench.load import SIZE_MIN

Result = dict[str, Any]  # figures by name, for JSON
Measure = Callable[[Path], Coroutine[Any, Any, Result]]
INTERRUPTED = 130  # exit status after Ctrl-C or SIGTERM


def parser_of(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the docstring of the command's module."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog=f"./run bench {name}".rstrip(),
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON object instead of a summary")
    parser.add_argument("--keep", action="store_true", help="keep the folder with configurations, logs and databases")
    return parser


def count(text: str) -> int:
    """Convert an argument that is a whole number, 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def size(text: str) -> int:
    """Convert an argument that is the size of a document."""
    number = int(text)
    if number < SIZE_MIN:
        raise argparse.ArgumentTypeError(f"at least {SIZE_MIN}: a document begins with its number")
    return number


def positive(text: str) -> float:
    """Convert an argument that is a rate or a duration: a number above 0, at most 100,000."""
    number = float(text)
    if not 0 < number <= 100_000:
        raise argparse.ArgumentTypeError("above 0 and at most 100000")
    return number


def in_folder(measure: Measure, arguments: argparse.Namespace, summary: Callable[[Result], str]) -> int:
    """Measure in a temporary folder, print the figures, and return the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="semq-bench-"))
    try:
        result = uvloop.run(_until_terminated(measure(folder)))
    except NoFigures as error:
        say(f"no figures: {(error.__doc__ or '').splitlines()[0]} {error}")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted, so there are no figures; all processes have ended")
        return INTERRUPTED
    finally:
        if arguments.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result) if arguments.json else summary(result), flush=True)
    return 0


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit, so that files and processes are cleaned up."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


async def _until_terminated(measuring: Coroutine[Any, Any, Result]) -> Result:
    task = asyncio.ensure_future(measuring)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def show(phase: str, facts: Result) -> None:
    """Print one JSON line on standard output."""
    print(json.dumps({"phase": phase, **facts}), flush=True)


def say(text: str) -> None:
    """Print progress on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def load_average() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)
