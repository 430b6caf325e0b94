"""Runs of the simulator for tests: in one process beside each worker, whose hash seed makes a seed the same everywhere.

Sets of text are walked in the order of their hashes, and the hash seed of a worker of the test run is drawn anew each
time. A process that is started once per worker costs one start of Python instead of two for each mutation.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar
from unittest.mock import patch

P = ParamSpec("P")
T = TypeVar("T")


class Runs:
    """The process; a context manager."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))

    def __enter__(self) -> "Runs":
        with patch.dict(os.environ, PYTHONHASHSEED="0"):  # a process is started when there is something to do
            assert self._pool.submit(is_seeded).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def __call__(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run ``work`` in the other process and return its result."""
        return self._pool.submit(work, *arguments, **named).result()


def is_seeded() -> bool:
    """Whether the hashes of text are the same in every such process."""
    return sys.flags.hash_randomization == 0
