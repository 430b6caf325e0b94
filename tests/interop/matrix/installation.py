"""Clients of other projects: pinned versions in a temporary folder, and the packages of Debian."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

SILENCE_S = 30.0  # time of a run; some clients wait for ever after an error
CLIENTS = Path(__file__).parent / "clients"
OF_PYTHON = {"pika": "1.4.4", "aio-pika": "10.2.1", "amqp": "5.4.2", "amqpstorm": "3.1.4"}
OF_NODE = {"amqplib": "2.3.1", "rabbitmq-client": "5.0.8", "@cloudamqp/amqp-client": "4.1.1"}
OF_DEBIAN = (
    "ruby-bunny", "php-amqplib", "php-cli", "libanyevent-rabbitmq-perl", "libnet-amqp-perl", "amqp-tools", "golang-go",
    "golang-github-rabbitmq-amqp091-go-dev",
)  # fmt: skip


class Program(NamedTuple):
    """A client: its name in the tables, with its version, and the command of its program."""

    name: str
    command: tuple[str, ...]


@contextmanager
def installed() -> Iterator[list[Program]]:
    """Yield the clients. They are removed at the end, except those of Debian, which must be there."""
    versions = {package: _version(package) for package in OF_DEBIAN}
    if missing := [package for package, version in versions.items() if not version]:
        raise SystemExit(f"Install the clients of Debian first: apt-get install {' '.join(missing)}")
    with TemporaryDirectory(prefix="clients-") as place:
        folder = Path(place)
        for file in CLIENTS.glob("*.*"):
            shutil.copy(file, folder)
        yield [*_of_python(folder), *_of_node(folder), *_of_debian(folder, versions)]


def _of_python(folder: Path) -> Iterator[Program]:
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = str(folder / "venv" / "bin" / "python")
    pinned = [f"{name}=={version}" for name, version in OF_PYTHON.items()]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pinned], check=True)
    for name, version in OF_PYTHON.items():
        client = "py-amqp" if name == "amqp" else name
        yield Program(f"{client} {version}", (python, str(folder / "python.py"), client))


def _of_node(folder: Path) -> Iterator[Program]:
    pinned = [f"{name}@{version}" for name, version in OF_NODE.items()]
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *pinned]
    subprocess.run(command, cwd=folder, check=True)
    for name, version in OF_NODE.items():
        yield Program(f"{name} {version}", ("node", str(folder / "node.js"), name))


def _of_debian(folder: Path, versions: dict[str, str]) -> Iterator[Program]:
    environment = ["env", "GO111MODULE=off", "GOPATH=/usr/share/gocode", f"GOCACHE={folder / 'go-cache'}"]
    subprocess.run([*environment, "go", "build", "-o", "amqp091", "amqp091.go"], cwd=folder, check=True)
    yield Program(f"bunny {versions['ruby-bunny']}", ("ruby", str(folder / "bunny.rb")))
    yield Program(f"php-amqplib {versions['php-amqplib']}", ("php", str(folder / "php_amqplib.php")))
    yield Program(f"Net::AMQP {versions['libnet-amqp-perl']}", ("perl", str(folder / "net_amqp.pl")))
    go = versions["golang-github-rabbitmq-amqp091-go-dev"]
    yield Program(f"amqp091-go {go}", (str(folder / "amqp091"),))
    yield Program(f"amqp-tools {versions['amqp-tools']}", ("sh", str(folder / "amqp_tools.sh")))


def _version(package: str) -> str:
    """Return the upstream version of an installed package; empty if it is not installed."""
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", package]
    words = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
    version = words[1] if words[:1] == ["installed"] else ""
    return (
        version.partition(":")[2].partition("-")[0] if ":" in version else version.partition("-")[0].partition("~")[0]
    )


async def run(program: Program, *arguments: str, stdin: bytes = b"") -> list[str]:
    """Return the lines that a program printed until it ended, whatever its status."""
    process = await asyncio.create_subprocess_exec(
        *program.command, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SILENCE_S):
            output, _ = await process.communicate(stdin)
    except TimeoutError:
        process.kill()
        output, _ = await process.communicate()
    return output.decode("utf-8", "replace").splitlines()
