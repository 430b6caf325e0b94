"""Reports to the hub about the users of this institution who receive documents now.

A user is present while a program consumes the user's inbox. The hub passes reports on to partners, so consumers
that come and go cause at most one report every ``PAUSE_S`` seconds.
"""

import asyncio
from collections.abc import Callable

from semq.engine.local_engine import LocalEngine
from semq.service.engine_handle import EngineHandle

SOON_S = 0.1  # from a change to its report
PAUSE_S = 10.0  # between two reports


class UserPresence:
    """The reports of one node."""

    def __init__(self, engine: EngineHandle[LocalEngine], users: Callable[[], list[str]]) -> None:
        """``users`` returns the present users."""
        self._engine = engine
        self._users = users
        self._timer: asyncio.TimerHandle | None = None
        self._last_at = -PAUSE_S

    def note_change(self) -> None:
        """Plan a report: a consumer has come or gone."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time() + SOON_S, self._last_at + PAUSE_S), self._report)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _report(self) -> None:
        self._timer, self._last_at = None, asyncio.get_running_loop().time()
        self._engine.current.note_users(self._users())
