"""Instances of the hub as processes; their institutions run in the test's event loop."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.ports import free_port
from local_node.node import LocalNode
from semq.installation.process import NodeProcess
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess
from tests.transport.pair import pair


@dataclass
class InstanceProcess:
    """An instance of the hub, or a standby of one."""

    config: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    def launch(self) -> None:
        with self.config.with_suffix(".log").open("ab") as out:
            self.process = NodeProcess.popen(
                [sys.executable, "-P", "-m", "platform_node", "--config", str(self.config)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out, cwd=self.config.parent, env=os.environ,
                start_new_session=True, preexec_fn=None,
            )  # fmt: skip

    async def wait_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line.startswith(b"ready "), self.log

    def end(self, signal_: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(signal_)
            self.process.wait(60)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    @property
    def log(self) -> str:
        return self.config.with_suffix(".log").read_text("utf-8", "replace")


@dataclass
class InstanceProcesses:
    """The processes of one hub."""

    inprocess: InProcess
    new_database: Callable[[], str]
    broker_port: int
    running_broker: AsyncExitStack
    #: URL by number of the instance; the first one is also the control database.
    databases: dict[int, str] = field(default_factory=dict)
    processes: list[InstanceProcess] = field(default_factory=list)

    def start_instance(self, number: int) -> InstanceProcess:
        """Start an instance, or a standby of an instance that was started before; do not wait until it is ready.

        Instance 1 must be started first.
        """
        database = self.databases.get(number) or self.databases.setdefault(number, self.new_database())
        name, port = f"hub-{number}-{len(self.processes)}", free_port()
        text = HUB_CONFIG.replace('id = "hub"', f'id = "hub"\nsemq_id = {number}\nsemq_db_id = {number}')
        text = text.replace('data_dir = "hub"', f'data_dir = "{name}"').replace("port = 0", f"port = {port}")
        config = self.inprocess.folder / f"{name}.toml"
        config.write_text(
            f'{text}\n[database]\nurl = "{database}"\n[cluster]\ncontrol = "{self.databases[1]}"\n'
            f'carrier = ["amqp://guest:guest@127.0.0.1:{self.broker_port}/"]\n'
        )
        process = InstanceProcess(config, port)
        process.launch()
        self.processes.append(process)
        return process

    async def restart_broker(self) -> None:
        """Replace the broker by an empty one on the same port."""
        await self.running_broker.aclose()
        await self.running_broker.enter_async_context(pair(port=self.broker_port, drain_s=0.1))

    async def start_local(self, name: str, *hubs: InstanceProcess) -> LocalNode:
        """Start a local node with the addresses of these processes of the hub."""
        more = ", ".join(f'"amqp://127.0.0.1:{hub.port}"' for hub in hubs[1:])
        text = LOCAL_CONFIG.format(name=name, hub=hubs[0].port)
        text = text.replace("reconnect_s_min", f"more_urls = [{more}]\nreconnect_s_min")
        return await self.inprocess.start_node(self.inprocess.settings(name, text))


@asynccontextmanager
async def instance_processes(inprocess: InProcess, new_database: Callable[[], str]) -> AsyncIterator[InstanceProcesses]:
    """Run a broker for the carrier; end it and all processes afterwards."""
    async with AsyncExitStack() as brokers:
        hub = InstanceProcesses(inprocess, new_database, free_port(), brokers)
        await hub.restart_broker()
        try:
            yield hub
        finally:
            await inprocess.stack.aclose()
            for process in hub.processes:
                process.end(signal.SIGKILL)
