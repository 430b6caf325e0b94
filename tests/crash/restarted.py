"""The base of the processes of a campaign: each is killed and restarted, as by a service manager."""

import asyncio
from collections.abc import Callable

READY_S = 180.0  # from the start until it serves, on a busy machine


class RestartedProcess:
    """One process; ``_keep`` starts it whenever it has ended, and sets ``_serving`` while it serves."""

    name: str  #: in its installation
    port: int

    def __init__(self) -> None:
        self.starts = 0
        self.on_ready: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._serving = asyncio.Event()
        self._stopping = False
        self._pause_s = 0.0  #: before the next start
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the process, and restart it whenever it has ended."""
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    @property
    def is_ready(self) -> bool:
        """Whether it serves now."""
        return self._serving.is_set()

    async def served_now(self) -> None:
        """Wait until it serves. Raises TimeoutError."""
        async with asyncio.timeout(READY_S):
            await self._serving.wait()

    async def _keep(self) -> None:
        raise NotImplementedError
