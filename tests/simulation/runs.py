"""Runs of the simulator for tests: in one process for each worker, with a fixed hash seed, so that seeds are
reproducible.

Sets of text are iterated in the order of their hashes, and each worker of the test run has a random hash seed. One
process per worker costs one start of Python instead of two for each mutation.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar
from unittest.mock import patch

from tests.simulation.campaign import prepare_process

P = ParamSpec("P")
T = TypeVar("T")


class Runs:
    """The other process; a context manager that ends it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), prepare_process)

    def __enter__(self) -> "Runs":
        with patch.dict(os.environ, PYTHONHASHSEED="0"):  # the process is started for the first work
            assert self._pool.submit(is_seeded).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def __call__(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run ``work`` in the other process and return its result."""
        return self._pool.submit(work, *arguments, **named).result()


def is_seeded() -> bool:
    """Whether this process has the fixed hash seed, so that hashes of text are the same in each run."""
    return sys.flags.hash_randomization == 0
