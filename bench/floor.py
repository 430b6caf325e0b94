"""The Postgres floor: the row changes of a phase, made again by one script straight through psycopg.

What it is for: a queue that keeps every promise in Postgres cannot be faster than Postgres takes these rows, whatever
its protocol costs. The ratio of a figure to its floor says how much of the machine is left after the promises.

What is made again, for each node on that node's own Postgres server, in a fresh database with the same schema (indexes,
constraints, partitions, storage parameters), while the nodes are idle:

- per document as many rows inserted, updated and deleted, in each table, as ``reference`` has: what the nodes changed
  when the reference was taken, so that a node that comes to write less is not measured by less. Every column is filled
  as in a real row, with an encoded envelope and a body of the size
- durable in the same way: the same server settings, ``synchronous_commit`` on, a commit for each batch and step
- in batches like those observed: the number of transactions that a node committed in the phase, divided among the
  steps below, gives its batch

Beside ``per_s`` stand ``best_per_s``, the same with batches of 500 documents, and ``now_per_s``, the rows that the
nodes changed in this very run; ``changed`` says where these differ from the reference.

A batch has these steps, one transaction each, left out where a node did nothing of the kind:

| step   | statements                                                                                       |
|--------|--------------------------------------------------------------------------------------------------|
| accept | binary COPY into each table that gets rows (psycopg's ``write_row``); an upsert for each counter |
| settle | UPDATE … WHERE key = ANY(…), as often as rows were changed                                       |
| clean  | DELETE … WHERE key = ANY(…)                                                                      |

In favour of the floor: it reads, looks up, decides and sends nothing; ids and rows are made before time is taken; the
databases are written at once by processes that never wait for each other; a batch has three commits at most;
checkpoints come before, not during.
"""

import asyncio
import multiprocessing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from multiprocessing.process import BaseProcess
from typing import Any

import psycopg
from psycopg import sql

from bench import reference
from bench.errors import FloorFailed
from bench.floor_script import KEYS, Plan, run, steps
from bench.network import HUB
from bench.reference import Work
from semq.store.postgres import ledger_partitions
from semq.store.postgres.migration import upgrade

BEST_BATCH = 500
DATABASE = "floor"
SAME = 0.2  # rows a document by which two runs of one version may differ


@dataclass(frozen=True, slots=True)
class Observed:
    """What one node did in a phase."""

    url: str
    work: Work
    commits: int

    @property
    def batch(self) -> int:
        """Documents in a batch, so that the script makes as many transactions as the node did."""
        return max(1, ceil(self.work.documents * len(steps(self.work.tables)) / max(self.commits, 1)))


def measure(phase: str, observed: Mapping[str, Observed], documents: int, size: int) -> dict[str, Any]:
    """Documents per second of the three kinds. Raises FloorFailed."""
    urls = {name: node.url for name, node in observed.items()}
    now = {name: node.work for name, node in observed.items()}
    then = {name: reference.of(phase, name, partners=len(observed) - 2) for name in observed}
    seen = {name: node.batch for name, node in observed.items()}
    best = dict.fromkeys(observed, BEST_BATCH)
    kinds = {"per_s": (then, seen), "best_per_s": (then, best), "now_per_s": (now, seen)}
    found = {kind: round(documents / _run(urls, *how, documents, size)) for kind, how in kinds.items()}
    return {**found, "batches": seen, "changed": differences(then, now)}


def differences(then: Mapping[str, Work], now: Mapping[str, Work]) -> dict[str, Any]:
    """Where nodes change their rows otherwise: by node and table, inserted, updated and deleted for a document."""
    found: dict[str, Any] = {}
    for name in now:
        for table in KEYS:
            was, is_ = then[name].each(table), now[name].each(table)
            if any(abs(before - after) > SAME for before, after in zip(was, is_, strict=True)):
                found.setdefault(name, {})[table] = {"reference": was, "now": is_}
    return found


def _run(
    urls: Mapping[str, str], works: Mapping[str, Work], batches: Mapping[str, int], documents: int, size: int
) -> float:
    """Seconds from the first statement of the first script to the last commit of the last one."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(urls)), context.SimpleQueue()
    scripts: list[BaseProcess] = []
    for name, url in urls.items():
        plan = Plan(_fresh(url), documents, size, batches[name], works[name], name == HUB)
        scripts.append(context.Process(target=run, args=(plan, barrier, answers), daemon=True))
    for script in scripts:
        script.start()
    for script in scripts:
        script.join()  # also one that Ctrl-C has ended, which answers nothing
    times = [answers.get() for script in scripts if script.exitcode == 0]
    faults = [fault for _, _, fault in times if fault]
    if faults or len(times) < len(scripts):
        raise FloorFailed(faults[0] if faults else "A script was ended.")
    return float(max(end for _, end, _ in times) - min(start for start, _, _ in times))


def _fresh(url: str) -> str:
    """A new, empty database at the newest schema on the server of ``url``."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(DATABASE)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
    before, _, after = url.partition("@/")
    fresh = f"{before}@/{DATABASE}{after[after.index('?') :]}"
    upgrade(fresh)
    asyncio.run(_prepare(fresh))
    return fresh


async def _prepare(url: str) -> None:
    """Today's partition of the ledger; what earlier phases have left in memory goes to the disk now."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await ledger_partitions.make_ahead(connection, datetime.now(UTC).date(), days=1)
        await connection.execute("CHECKPOINT")
