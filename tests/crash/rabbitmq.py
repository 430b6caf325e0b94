"""RabbitMQ as the carrier of a campaign: a cluster of three nodes, each of which is killed and restarted."""

import asyncio
import signal
from contextlib import suppress

from bench.rabbitmq.server import STOP_S, RabbitNode
from semq.installation.process import wait_for_exit
from tests.crash.armed.process import RestartedProcess


class BrokerProcess(RestartedProcess):
    """A node of the cluster, restarted whenever it has ended."""

    def __init__(self, name: str, node: RabbitNode) -> None:
        super().__init__()
        self.name = name
        self.port = node.port
        self._node = node

    def kill(self, back_after_s: float) -> None:
        """Send SIGKILL; the node restarts after a pause."""
        self._pause_s = back_after_s
        self._serving.clear()
        self._node.signal(signal.SIGKILL)

    def freeze(self) -> None:
        self._node.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._node.signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Stop the node in an orderly way."""
        self._stopping = True
        self._node.signal(signal.SIGTERM)
        if self._task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await asyncio.shield(self._task)
        await self.remove()

    async def remove(self) -> None:
        """End all processes of the node."""
        self._stopping = True
        self._node.signal(signal.SIGKILL)
        if self._task is not None:
            await asyncio.wait([self._task])

    # ------------------------------------------------------------ inside

    async def _keep(self) -> None:
        while not self._stopping:
            process = self._node.start()
            self.starts += 1
            if await asyncio.to_thread(self._node.wait_serving):
                self._serving.set()
                self.on_ready()
            await wait_for_exit(process)
            self._serving.clear()
            self.on_end()
            if not self._stopping:
                await asyncio.sleep(self._pause_s)
