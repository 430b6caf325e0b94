"""The services of deploy/compose as processes of this machine, with databases, ports and a broker of the test."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.ports import free_port
from semq.app import Client
from semq.config.names import is_known
from semq.installation.empty_database import copy_empty_database
from tests.cli.command import semq_aside
from tests.prepared.client import RUN_MODULE, PreparedProcess
from tests.transport.pair import pair

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
NODES = ("hub-1", "hub-2", "hub-2-standby", "node-10008", "node-56001")
BY_RUN = ("hub-1", "node-10008")  # one service of each kind; for the others the test starts the module itself
pytestmark = pytest.mark.processes


def services() -> dict[str, Any]:
    """Return the services, with a password for each variable of the example file; check the declared volumes."""
    names = re.findall(r"^(\w+)=$", (COMPOSE / "passwords.env.example").read_text(), re.MULTILINE)
    text = (COMPOSE / "compose.yaml").read_text()
    text = re.sub(r"\$\{(\w+)(:\?[^}]*)?\}", lambda match: password_named(match[1], names), text)
    compose: dict[str, Any] = yaml.safe_load(text)
    assert set(compose["volumes"]) == {
        volume.partition(":")[0] for service in compose["services"].values() for volume in service.get("volumes", ())
    } - {f"./{name}.toml" for name in ("hub", "institution")}
    return dict(compose["services"])


def password_named(name: str, names: list[str]) -> str:
    assert name in names, f"passwords.env.example lacks {name}"
    return name.lower()


def config_of(service: dict[str, Any]) -> Path:
    """Return the file that the service mounts at the path of its option ``--config``."""
    mounts = dict(volume.split(":")[1::-1] for volume in service["volumes"])
    return COMPOSE / str(mounts[service["command"][-1]])


@pytest.mark.parametrize("name", NODES)
def test_a_service_names_settings_and_commands_that_exist(name: str) -> None:
    service = services()[name]
    variables = [variable.removeprefix("SEMQ_").lower().split("__") for variable in service["environment"]]
    assert all(map(is_known, variables)), variables
    assert config_of(service).is_file()
    offered = subprocess.run([str(ROOT / "run"), "help"], capture_output=True, text=True, check=True).stdout
    command, kind, option, _ = service["command"]
    assert re.search(rf"^  {command} .*\b{kind}\b", offered, re.MULTILINE)
    assert option == "--config"
    assert all(other in services() for other in service["depends_on"])


def test_the_image_contains_what_its_services_start() -> None:
    text = (ROOT / "deploy" / "container" / "Containerfile").read_text()
    assert 'ENTRYPOINT ["/opt/semq/run"]' in text
    assert "RUN /opt/semq/run setup base" in text
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    needed = {"run", "pyproject.toml", "requirements-base.lock", "semq", "local_node", "platform_node"}
    assert not needed & set(ignored)
    for name in NODES:
        service = services()[name]
        assert (COMPOSE / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()


class ComposedService:
    def __init__(self, name: str, folder: Path, variables: dict[str, str]) -> None:
        service = services()[name]
        self.port = free_port()
        self.log = folder / f"{name}.log"
        service_variables = {key: str(value) for key, value in service["environment"].items()}
        machine_variables = {
            "SEMQ_NODE__DATA_DIR": str(folder / name),
            "SEMQ_AMQP__PORT": str(self.port),
            "SEMQ_HTTP__PORT": "0",
        }
        if not name.startswith("hub"):
            del machine_variables["SEMQ_HTTP__PORT"]  # institutions have no section [http] here
            copy_empty_database(folder / name)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SEMQ_")}
        *words, kind, option, _ = service["command"]
        arguments = [option, str(config_of(service))]
        self.process: subprocess.Popen[bytes] | PreparedProcess
        with self.log.open("ab") as log:
            settings: dict[str, Any] = {
                "env": environment | service_variables | machine_variables | variables, "cwd": folder,
                "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": log, "start_new_session": True,
            }  # fmt: skip
            if name in BY_RUN:
                self.process = subprocess.Popen([str(ROOT / "run"), *words, kind, *arguments], **settings)
            else:
                command = [*RUN_MODULE, f"{kind}_node", *arguments]
                self.process = PreparedProcess(command, **settings, preexec_fn=None)

    async def until_ready(self) -> None:
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line.startswith(b"ready "), self.log.read_text()

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the process only, as a container runtime does, and wait for its end."""
        self.process.send_signal(number)
        self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()


@asynccontextmanager
async def started(folder: Path, new_database: Callable[[], str]) -> AsyncIterator[Callable[..., ComposedService]]:
    """Yield a function that starts a service by its name; an institution also needs the hubs that it dials."""
    running: list[ComposedService] = []
    databases = {host: new_database() for host in ("db-1", "db-2")}
    carrier = free_port()

    def start(name: str, *hubs: ComposedService) -> ComposedService:
        variables = {}
        for key, value in services()[name]["environment"].items():
            for host, database in databases.items():
                if f"@{host}:5432/" in str(value):
                    variables[key] = database
        if name.startswith("hub"):
            variables["SEMQ_CLUSTER__CARRIER"] = f'["amqp://guest:guest@127.0.0.1:{carrier}/"]'
        else:
            first, *more = (f'"amqp://127.0.0.1:{hub.port}"' for hub in hubs)
            variables |= {"SEMQ_HUB__URL": first.strip('"'), "SEMQ_HUB__MORE_URLS": f"[{', '.join(more)}]"}
        running.append(ComposedService(name, folder, variables))
        return running[-1]

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(pair(port=carrier, drain_s=0.1))
        try:
            yield start
        finally:
            for service in running:
                if service.process.poll() is None:
                    service.end(signal.SIGTERM)


async def test_a_document_goes_through_the_services_also_when_an_instance_has_ended(
    tmp_path: Path, new_database: Callable[[], str]
) -> None:
    async with started(tmp_path, new_database) as start, AsyncExitStack() as clients:
        first = start("hub-1")
        await first.until_ready()
        second = start("hub-2")
        await second.until_ready()
        standby = start("hub-2-standby")
        a, b = start("node-10008", first, second), start("node-56001", second, first)
        await asyncio.gather(a.until_ready(), b.until_ready())
        urls = [f"amqp://app:app_password@127.0.0.1:{node.port}" for node in (a, b)]
        sender, receiver = [await clients.enter_async_context(Client(url)) for url in urls]
        assert (await sender.wait_for_delivery((await sender.send("56001", b"one")).lk0, 60)).is_delivered
        listed = await semq_aside("hub", "instances", "--node", f"amqp://admin:admin_password@127.0.0.1:{first.port}")
        assert (listed.status, listed.out.count("1.1"), listed.out.count("2.2")) == (0, 1, 1), listed
        second.end(signal.SIGTERM)
        await standby.until_ready()
        assert (await sender.wait_for_delivery((await sender.send("56001", b"two")).lk0, 60)).is_delivered
        async with receiver.receive() as documents:
            for body in (b"one", b"two"):
                document = await anext(documents)
                assert document.payload == body
                await document.ack()
