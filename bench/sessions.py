"""``./run bench sessions --virtual N``: many institutions in one virtual server, at rest.

A hub and a virtual server are started as processes. ``start_s`` is the time from the start of the server until every
institution has been started, with its database created before; ``rss_mib`` the memory of the process then, when every
link is up; ``idle_cpu_percent`` its processor time, in percent of one core, while nothing happens. The same for
its Postgres: ``postgres_cpu_percent``; ``connections`` are those to it.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from bench import cli
from bench.cli import Result, say
from bench.errors import NoFigures
from semq.app import Client
from semq.store.embedded.server import EmbeddedPostgres

READY_S = 1800.0
LINKED_S = 900.0
IDLE_S = 60.0
SUMMARY = """
{institutions} institutions in one virtual server; {cores} cores, load {load_1m}
  start    {start_s:>7} s with existing databases, {create_s} s with new ones
  memory   {rss_mib:>7} MiB, {kib_per_institution} KiB an institution
  at rest  {idle_cpu_percent:>7} % of a core, Postgres {postgres_cpu_percent} %, with {connections} connections to it
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("sessions", __doc__)
    parser.add_argument("--virtual", type=cli.count, required=True, metavar="N", help="institutions in the server")
    parser.add_argument("--idle", type=cli.rate, default=IDLE_S, metavar="S", help=f"seconds at rest ({IDLE_S:g})")
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda found: SUMMARY.format(**found))


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Start hub and server, and measure."""
    names = [f"{number:05d}" for number in range(1, arguments.virtual + 1)]
    load = cli.load_average()
    nodes = "\n".join(f'[nodes."{name}"]\npassword = "{name}"' for name in names)
    (folder / "hub.toml").write_text(
        '[node]\nkind = "platform"\nid = "hub"\ndata_dir = "hub"\n'
        f'[amqp]\nport = 0\nmax_connections_per_address = 4096\n[log]\nlevel = "error"\n{nodes}\n'
    )
    async with process(folder, "platform_node", "hub.toml") as (_, hub):
        tables = "\n".join(f'[institutions."{name}"]\nhub.password = "{name}"' for name in names)
        (folder / "server.toml").write_text(
            f'[server]\nid = "bench"\ndata_dir = "server"\n[amqp]\nport = 0\n[hub]\nurl = "amqp://{hub}"\n'
            f'[log]\nlevel = "error"\n{tables}\n'
        )
        say(f"starting a virtual server with {len(names)} new institutions ...")
        began = time.monotonic()
        async with process(folder, "local_node.virtual", "server.toml"):
            created_s = time.monotonic() - began
        say("starting it again ...")
        began = time.monotonic()
        async with process(folder, "local_node.virtual", "server.toml") as (server, address):
            started_s = time.monotonic() - began
            await linked(address, len(names))
            say(f"measuring {arguments.idle:g} s at rest ...")
            found = await at_rest(server, folder / "server", arguments.idle)
    return {
        "institutions": len(names), "start_s": round(started_s, 1), "create_s": round(created_s, 1),
        "kib_per_institution": round(found["rss_mib"] * 1024 / len(names)), "load_1m": load,
        "cores": len(os.sched_getaffinity(0)), **found,
    }  # fmt: skip


async def at_rest(server: int, data: Path, idle_s: float) -> Result:
    """Return memory and processor time of a server that nobody uses, and of its Postgres."""
    embedded = EmbeddedPostgres(data)
    assert embedded.pid is not None
    postgres = embedded.pid
    before, base = _cpu_s(server), _cpu_s(postgres)
    began = time.monotonic()
    await asyncio.sleep(idle_s)
    took_s = time.monotonic() - began
    with psycopg.connect(embedded.url_of("postgres")) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'semq%'").fetchone()
    return {
        "rss_mib": round(_rss(server) / (1 << 20), 1),
        "idle_cpu_percent": round(100 * (_cpu_s(server) - before) / took_s, 2),
        "postgres_cpu_percent": round(100 * (_cpu_s(postgres) - base) / took_s, 2),
        "connections": row[0] if row else 0,
    }


def _rss(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process, of its children, and of those that have ended."""
    facts = [_facts(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdigit()]
    own = _facts(pid)
    living = [one for one in facts if one[:1] == [pid]]
    return (sum(own[1:]) + sum(sum(one[1:3]) for one in living)) / os.sysconf("SC_CLK_TCK")


def _facts(pid: int) -> list[int]:
    """Return parent, and ticks in user and system mode of a process and of its ended children; empty if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []
    return [int(fields[place]) for place in (1, 11, 12, 13, 14)]


async def linked(address: str, count: int) -> None:
    """Wait until every institution has its link and rests. Raises NoFigures."""
    deadline = time.monotonic() + LINKED_S
    async with Client(f"amqp://guest:guest@{address}", patience_s=60) as client:
        while True:
            rows = await client.request("server.list", {}, timeout_s=60)
            up = sum(row["link"] == "up" and row["database"] == "rest" for row in rows)
            if up == count:
                return
            if time.monotonic() > deadline:
                raise NoFigures(f"only {up} of {count} institutions have a link and rest after {LINKED_S:g} s")
            await asyncio.sleep(1.0)


@asynccontextmanager
async def process(folder: Path, module: str, file: str) -> AsyncIterator[tuple[int, str]]:
    """Run a module on a configuration; yield process id and address when it serves. Raises NoFigures."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, "--config", str(folder / file), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    try:
        line = await _line(program.stdout.readline)
        if not line.startswith("ready "):
            raise NoFigures(f"{module} did not start")
        yield program.pid, line.split()[1]
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


async def _line(read: Callable[[], Awaitable[bytes]]) -> str:
    try:
        async with asyncio.timeout(READY_S):
            return (await read()).decode()
    except TimeoutError:
        return ""
