"""Runs of the simulator in a separate process, whose fixed hash seed lets a seed give the same run each time.

All tests of a worker share the process, because a start of Python takes long.
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


class SimulatorProcess:
    """The process in which a worker's simulator runs; a context manager."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), prepare_process)

    def __enter__(self) -> "SimulatorProcess":
        with patch.dict(os.environ, PYTHONHASHSEED="0"):  # the pool starts its process at the first task
            assert self._pool.submit(is_seeded).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def __call__(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return self._pool.submit(work, *arguments, **named).result()


def is_seeded() -> bool:
    """Whether this process has the fixed hash seed."""
    return sys.flags.hash_randomization == 0
