"""The end of a turn of the event loop, at which everything collected during the turn is written once.

``Turn`` runs the hooks (``before_flush``), then flushes the links (``mark``), in one callback per turn. All links and
brokers of a loop share one ``Turn``.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

READ_SIZE = 64 * 1024  # bytes


class Flushable(Protocol):
    """An object with output to write at the end of the turn."""

    def flush(self) -> None:
        """Write the output; called at most once per turn."""


class Turn:
    """The links and hooks that wait for the end of this turn, and the buffer into which all links read."""

    def __init__(self) -> None:
        # All links of a loop read into this buffer, one after the other. Its size bounds one read,
        # so that a flood of small messages does not delay the other links.
        self.read_buffer = memoryview(bytearray(READ_SIZE))
        self._loop = asyncio.get_running_loop()
        self._links: dict[Flushable, None] = {}
        self._hooks: dict[Callable[[], None], None] = {}
        self._is_scheduled = False

    def mark(self, link: Flushable) -> None:
        """Note that ``link`` has output."""
        self._links[link] = None
        self._schedule()

    def before_flush(self, hook: Callable[[], None]) -> None:
        """Call ``hook`` once at the end of this turn, before output is written; ``hook`` may produce output."""
        self._hooks[hook] = None
        self._schedule()

    def in_next(self, step: Callable[[], None]) -> None:
        """Call ``step`` in the next turn, after sockets and timers have been served."""
        self._loop.call_soon(_guard, step)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        # A hook may request another hook (a settlement that publishes). Requests made during the flush get a turn of
        # their own.
        while self._hooks:
            hooks, self._hooks = self._hooks, {}
            for hook in hooks:
                _guard(hook)
        self._is_scheduled = False
        links, self._links = self._links, {}
        for link in links:
            _guard(link.flush)


def _guard(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:
        log.exception("a step of the event loop failed")
