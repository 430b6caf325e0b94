"""The local nodes of many institutions in one virtual server, at rest.

A hub and a virtual server are started as processes. ``start_s`` is the time from the start of the server until every
institution has been started, with existing databases. When every link is up and every institution has rested once,
``rss_mib`` is the memory of the server, and ``idle_cpu_percent`` its processor time at rest, in percent of one core.
``postgres_cpu_percent`` is the processor time of its Postgres, and ``connections`` the number of connections to it.
"""

import argparse
import asyncio
import os
import time
from pathlib import Path

import psycopg

from bench import cli
from bench.cli import Result, say
from bench.errors import NoFigures
from bench.sessions.process import cpu_s, process, rss
from semq.app import Client
from semq.store.embedded.server import EmbeddedPostgres

LINKED_S = 900.0  # time limit of ``wait_linked``
SUMMARY = """
{institutions} institutions in one virtual server; {cores} cores, load {load_1m}
  start    {start_s:>7} s with existing databases, {create_s} s with new ones
  memory   {rss_mib:>7} MiB, {kib_per_institution} KiB an institution
  at rest  {idle_cpu_percent:>7} % of a core, Postgres {postgres_cpu_percent} %, with {connections} connections to it
"""


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Start a hub, then a virtual server twice, and measure."""
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
            await wait_linked(address, len(names))
            say(f"measuring {arguments.idle:g} s at rest ...")
            resting = await measure_at_rest(server, folder / "server", arguments.idle)
    return {
        "institutions": len(names), "start_s": round(started_s, 1), "create_s": round(created_s, 1),
        "kib_per_institution": round(resting["rss_mib"] * 1024 / len(names)), "load_1m": load,
        "cores": len(os.sched_getaffinity(0)), **resting,
    }  # fmt: skip


async def measure_at_rest(server: int, data: Path, idle_s: float) -> Result:
    """Measure a server in folder ``data`` and its Postgres at rest."""
    embedded = EmbeddedPostgres(data)
    assert embedded.pid is not None
    postgres = embedded.pid
    server_before, postgres_before = cpu_s(server), cpu_s(postgres)
    began = time.monotonic()
    await asyncio.sleep(idle_s)
    elapsed_s = time.monotonic() - began
    with psycopg.connect(embedded.url_of("postgres")) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'semq%'").fetchone()
    return {
        "rss_mib": round(rss(server) / (1 << 20), 1),
        "idle_cpu_percent": round(100 * (cpu_s(server) - server_before) / elapsed_s, 2),
        "postgres_cpu_percent": round(100 * (cpu_s(postgres) - postgres_before) / elapsed_s, 2),
        "connections": row[0] if row else 0,
    }


async def wait_linked(address: str, count: int) -> None:
    """Wait until every link is up and every institution has rested once. Raises NoFigures.

    With many institutions, some always have a connection open for a poll.
    """
    rested: set[str] = set()
    deadline = time.monotonic() + LINKED_S
    async with Client(f"amqp://guest:guest@{address}", patience_s=60) as client:
        while True:
            rows = await client.request("server.list", {}, timeout_s=60)
            rested.update(row["institution"] for row in rows if row["database"] == "rest")
            up = sum(row["link"] == "up" for row in rows)
            if up == count == len(rested):
                return
            if time.monotonic() > deadline:
                raise NoFigures(
                    f"of {count} institutions {up} have a link and {len(rested)} have rested after {LINKED_S:g} s"
                )
            await asyncio.sleep(1.0)
