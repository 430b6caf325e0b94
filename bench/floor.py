"""The Postgres floor: the row changes of a phase, made again by one script straight through psycopg.

What it is for: a queue that keeps every promise in Postgres cannot be faster than Postgres takes these rows, whatever
its protocol costs. The ratio of a figure to its floor says how much of the machine is left after the promises.

What is made again, for each node on that node's own Postgres server, in a fresh database with the same schema (indexes,
constraints, partitions, storage parameters), while the nodes are idle:

- per document as many rows inserted, updated and deleted, in each table, as Postgres counted during the measured phase
  (``rows``): tb_0031, tb_0030 and their bodies, the receiver's ledger of positions, the ledger of events at all three
  nodes, counters of streams. Every column is filled as in a real row, with an encoded envelope and a body of the size
- durable in the same way: the same server settings, ``synchronous_commit`` on, a commit for each batch and step
- in batches like those observed: the number of transactions that a node committed in the phase, divided among the
  steps below, gives its batch. Beside it stands ``best_per_s``: the same with batches of 500 documents

A batch has these steps, one transaction each, left out where a node did nothing of the kind:

| step   | statements                                                                                       |
|--------|--------------------------------------------------------------------------------------------------|
| accept | binary COPY into each table that gets rows (psycopg's ``write_row``); an upsert for each counter |
| settle | UPDATE … WHERE key = ANY(…), as often as rows were changed                                       |
| clean  | DELETE … WHERE key = ANY(…)                                                                      |

In favour of the floor: it reads, looks up, decides and sends nothing; ids and rows are made before time is taken; the
three databases are written at once by three processes that never wait for each other; a batch has three commits at
most; checkpoints come before, not during. In favour of the nodes: rows that are deleted after the last SS_ACK2 are in
the floor in full, while the figure of a phase ends with that SS_ACK2; ``clean_s`` says how much later all was clean.
"""

import asyncio
import multiprocessing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

import psycopg
from psycopg import sql

from bench.floor_script import Plan, run, steps
from bench.network import HUB
from bench.rows import Reading
from semq.store import ledger
from semq.store.migrate import upgrade

BEST_BATCH = 500
DATABASE = "floor"


@dataclass(frozen=True, slots=True)
class Observed:
    """What one node did in a phase."""

    url: str
    reading: Reading
    commits: int

    def batch(self, documents: int) -> int:
        """Documents in a batch, so that the script makes as many transactions as the node did."""
        return max(1, ceil(documents * len(steps(self.reading.tables)) / max(self.commits, 1)))


def measure(observed: Mapping[str, Observed], of: int, documents: int, size: int) -> dict[str, Any]:
    """Documents per second: ``per_s`` with the batches observed when ``of`` documents passed, and ``best_per_s``."""
    seen = {name: node.batch(of) for name, node in observed.items()}
    best = dict.fromkeys(observed, BEST_BATCH)
    seconds = [_run(observed, batches, of, documents, size) for batches in (seen, best)]
    return {"per_s": round(documents / seconds[0]), "best_per_s": round(documents / seconds[1]), "batches": seen}


def _run(observed: Mapping[str, Observed], batches: Mapping[str, int], of: int, documents: int, size: int) -> float:
    """Seconds from the first statement of the first script to the last commit of the last one."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(observed)), context.SimpleQueue()
    scripts = []
    for name, node in observed.items():
        plan = Plan(_fresh(node.url), documents, size, batches[name], node.reading.tables, of, name == HUB)
        scripts.append(context.Process(target=run, args=(plan, barrier, answers), daemon=True))
    for script in scripts:
        script.start()
    times = [answers.get() for _ in scripts]
    for script in scripts:
        script.join()
    faults = [fault for _, _, fault in times if fault]
    if faults:
        raise RuntimeError(faults[0])
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
        await ledger.make_ahead(connection, datetime.now(UTC).date(), days=1)
        await connection.execute("CHECKPOINT")
