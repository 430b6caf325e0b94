"""The Postgres floor: the row changes of a phase, repeated by one script for each node through psycopg.

A queue in Postgres cannot be faster than Postgres accepts these rows. The ratio of a rate to its floor shows the
overhead of everything else.

While the nodes are idle, each script writes to its node's Postgres server, in a fresh database with the same schema:

- the rows that ``reference`` lists per document and table, or the rows of this run, with every column filled
- with the server settings of the node and ``synchronous_commit`` on
- with about as many commits as the node made in the phase; a batch has one commit for each of the steps below

``per_s`` is the rate with the rows of the reference and these batches; ``best_per_s``, with batches of 500 documents;
``now_per_s``, with the row changes of this run. ``changed`` lists how these differ from the reference.

A batch has these steps, one transaction each; steps without work are left out:

| step   | statements                                                                                            |
|--------|-------------------------------------------------------------------------------------------------------|
| accept | binary COPY into each table that gets rows (psycopg's ``write_row``); an upsert of each stream's row  |
| settle | UPDATE … WHERE key = ANY(…), repeated if rows change more than once                                   |
| clean  | DELETE … WHERE key = ANY(…)                                                                           |

Unlike nodes, the scripts read, decide and send nothing, and do not wait for each other; ids and rows are made, and a
checkpoint happens, before the measured time.
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

from bench.errors import FloorFailed
from bench.floor import reference
from bench.floor.reference import TableWork
from bench.floor.script import KEYS, ScriptPlan, run, steps
from semq.installation.configuration import HUB
from semq.store.postgres import ledger_partitions
from semq.store.postgres.migration import upgrade

BEST_BATCH = 500
DATABASE, TEMPLATE = "floor", "floor_schema"
TOLERANCE = 0.2  # rows per document by which runs of one version may differ


@dataclass(frozen=True, slots=True)
class Observed:
    """The work of one node in a phase."""

    url: str  #: of its database
    work: TableWork
    commits: int

    @property
    def batch(self) -> int:
        """Documents per batch with which the script commits about as often as the node, and no more often."""
        return max(1, ceil(self.work.documents * len(steps(self.work.tables)) / max(self.commits, 1)))


def measure(phase: str, observed: Mapping[str, Observed], documents: int, size: int) -> dict[str, Any]:
    """Return the three rates, the batches and the differences from the reference. Raises FloorFailed."""
    urls = {name: node.url for name, node in observed.items()}
    works = {name: node.work for name, node in observed.items()}
    references = {name: reference.work_of(phase, name, partners=len(observed) - 2) for name in observed}
    batches = {name: node.batch for name, node in observed.items()}
    best_batches = dict.fromkeys(observed, BEST_BATCH)
    kinds = {
        "per_s": (references, batches), "best_per_s": (references, best_batches), "now_per_s": (works, batches)
    }  # fmt: skip
    rates = {kind: round(documents / _run(urls, *plan, documents, size)) for kind, plan in kinds.items()}
    return {**rates, "batches": batches, "changed": differences(references, works)}


def differences(references: Mapping[str, TableWork], works: Mapping[str, TableWork]) -> dict[str, Any]:
    """Return the rows per document that differ from the reference, by node and table."""
    changed: dict[str, Any] = {}
    for name in works:
        for table in KEYS:
            expected, observed = references[name].per_document(table), works[name].per_document(table)
            if any(abs(a - b) > TOLERANCE for a, b in zip(expected, observed, strict=True)):
                changed.setdefault(name, {})[table] = {"reference": expected, "now": observed}
    return changed


def _run(
    urls: Mapping[str, str], works: Mapping[str, TableWork], batches: Mapping[str, int], documents: int, size: int
) -> float:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run.__module__])  # imports once for all scripts
    barrier, results = context.Barrier(len(urls)), context.SimpleQueue()
    scripts: list[BaseProcess] = []
    for name, url in urls.items():
        plan = ScriptPlan(_fresh(url), documents, size, batches[name], works[name], name == HUB)
        scripts.append(context.Process(target=run, args=(plan, barrier, results), daemon=True))
    for script in scripts:
        script.start()
    for script in scripts:
        script.join()  # a script that Ctrl-C has ended has no result
    times = [results.get() for script in scripts if script.exitcode == 0]
    faults = [fault for _, _, fault in times if fault]
    if faults or len(times) < len(scripts):
        raise FloorFailed(faults[0] if faults else "A script was ended.")
    return float(max(end for _, end, _ in times) - min(start for start, _, _ in times))


def _fresh(url: str) -> str:
    """Create an empty database at the newest schema on the server of ``url``; return its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        template = _template(connection, url)
        name = sql.Identifier(DATABASE)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template)))
    fresh = _url_of(url, DATABASE)
    asyncio.run(_prepare(fresh))
    return fresh


def _template(connection: psycopg.Connection[Any], url: str) -> str:
    """Return the name of an empty database at the newest schema; create it if the server has none."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone() is None:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(TEMPLATE)))
        upgrade(_url_of(url, TEMPLATE))
    return TEMPLATE


def _url_of(url: str, database: str) -> str:
    login, _, path_and_query = url.partition("@/")
    return f"{login}@/{database}{path_and_query[path_and_query.index('?') :]}"


async def _prepare(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await ledger_partitions.make_ahead(connection, datetime.now(UTC).date(), days=1)
        await connection.execute("CHECKPOINT")
