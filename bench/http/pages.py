"""``./run bench http``: submissions over HTTP, pages of the console over large tables, and the cost of an open console.

One node runs without its hub, so that its messages stay in the queue. Before it starts, its tables are filled with
``--waiting`` messages and ``--lines`` lines of the ledger.

    submit_per_s      documents per second over ``--connections`` connections, each answered after its commit
    p50_ms, p99_ms    latency of these requests
    cpu_us            processor time of a document in node, web process and Postgres
    page_p50_ms, page_p99_ms    latency of the console's pages, each opened ``--visits`` times, one after the other
    first_page_ms     of the slowest first visit; ``first_page`` is this page, ``first_ms`` has that of each page
    pages             number of these pages
    chart_page_p99_ms    of the pages with charts, over ``--days`` days of figures
    ended_search_p99_ms  of searches for ended documents
    counting_cpu_share   part of one processor that counts the figures at a million documents a day
    node_slowdown     share by which the rate of an AMQP client falls while a viewer opens a page every second:
                      median of neighbouring moments, alone and watched, in node_slowdowns
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from sqlalchemy import text

from bench import cli
from bench.cli import Result, say, show
from bench.errors import Incomplete
from bench.gauges import process_s, session_s
from bench.http import large_tables
from bench.http.client import HttpConnection
from semq.app import Client
from semq.clock import SystemClock
from semq.console.routes import ROUTES
from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan
from semq.installation.process import NodeProcess
from semq.service.operations.tokens import new_token
from semq.store.accounts import add_token
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.figures import count_lines
from semq.store.postgres.migration import engine_of
from semq.web.node.database import Database

NODE, TARGET = "a", "56001"
CHARTS = (
    "/",
    *(f"/figures?period={period}&partner={to}" for period in ("hour", "day", "week") for to in ("", "50001")),
)
ENDED = "/messages?ended=true"
SEARCHES = (
    ENDED, f"{ENDED}&from=yesterday&to=yesterday&partner=50001&type=order&state=DELIVERED", f"{ENDED}&key=K0001",
    f"{ENDED}&from=yesterday&to=today&state=DELIVERED", f"{ENDED}&order=oldest&partner=50007",
)  # fmt: skip
A_DAY, SECONDS_OF_DAY = 1_000_000, 86_400  # documents
MOMENT_S = 3.0  # of the node alone, or with an open console
PAIRS = 40  # of such moments
TARGETS = 8  # so many that no queue for a partner is full (limit 1,000,000)
VIEWER_PAUSE_S = 1.0  # between pages of the simulated viewer
PUBLISHERS = 32  # tasks that submit over one connection at the same time
WARM_UP = 300  # submissions before the measurement
SUMMARY = """
{documents} documents of {size} bytes by HTTP over {connections} connections, {waiting} waiting, {lines} ledger lines
  submit   {submit_per_s:>8}/s, {p50_ms} ms p50, {p99_ms} ms p99, {cpu_us} µs of processor time each
  pages    {page_p50_ms:>8} ms p50, {page_p99_ms} ms p99 of {pages} pages; slowest {slowest_page}
           {first_page_ms:>8} ms first visit of {first_page}, the slowest
           {chart_page_p99_ms:>8} ms p99 of charts, {ended_search_p99_ms} ms p99 of searches for ended documents
  counting {counting_cpu_share:>8.3%} of a processor at a million documents a day
  node     {node_per_s:>8}/s alone, {node_slowdown:.1%} less with an open console
"""


def main(argv: list[str]) -> int:
    """Run the benchmark and return the exit status."""
    parser = cli.parser_of("http", __doc__)
    parser.add_argument("--documents", type=cli.count, default=10_000, metavar="N", help="documents (10000)")
    parser.add_argument("--size", type=cli.size, default=1024, metavar="BYTES", help="bytes in a document (1024)")
    parser.add_argument("--connections", type=cli.count, default=16, metavar="N", help="HTTP connections (16)")
    parser.add_argument("--waiting", type=cli.count, default=1_000_000, metavar="N", help="waiting rows (1000000)")
    parser.add_argument("--lines", type=cli.count, default=5_000_000, metavar="N", help="ledger lines (5000000)")
    parser.add_argument("--days", type=cli.count, default=90, metavar="N", help="days of the ledger (90)")
    parser.add_argument("--visits", type=cli.count, default=5, metavar="N", help="times that each page is opened (5)")
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda result: SUMMARY.format(**result))


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Run all phases and return the figures."""
    plan = InstallationPlan({NODE: "10008"}, ApplicationLogin("bench", "bench"), common_rows={"http.port": 0})
    places = plan.write(folder)
    del places[HUB]
    node = NodeProcess(places[NODE])
    say(f"filling the tables: {arguments.waiting} waiting messages, {arguments.lines} lines of the ledger ...")
    share = await asyncio.to_thread(_fill, node, arguments.waiting, arguments.lines, arguments.days)
    say("starting the node ...")
    try:
        await asyncio.to_thread(node.start)
        link = await asyncio.to_thread(node.console)
        if not link:
            raise Incomplete(f"the node has ended: {node.log_tail()}")
        result = await _measure(node, link, arguments)
    finally:
        await asyncio.to_thread(node.end_with_database)
    keys = ("documents", "size", "connections", "waiting", "lines", "days")
    given = {key: getattr(arguments, key) for key in keys}
    return {"bench": "http"} | given | result | {"counting_cpu_share": share}


def _fill(node: NodeProcess, waiting: int, lines: int, days: int) -> float:
    """Fill and count the tables of a node; return ``counting_cpu_share``."""
    node.start()  # the first start makes the tables, and begins the numbering of records
    node.end()
    with EmbeddedPostgres(node.place.data_dir) as server:
        large_tables.fill(server.url, waiting, lines, days)
        engine = engine_of(server.url)
        with engine.connect() as connection:
            backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            connection.rollback()
            before = time.process_time() + process_s(backend)
            while count_lines(connection):
                pass
            used_s = time.process_time() + process_s(backend) - before
        engine.dispose()
    documents = lines / large_tables.LINES_PER_DOCUMENT
    return round(used_s / documents * A_DAY / SECONDS_OF_DAY, 5)


async def _measure(node: NodeProcess, link: str, arguments: argparse.Namespace) -> Result:
    """Measure submissions, pages and slowdown. ``link``: the one-time link to the console."""
    parts = urlsplit(link)
    host, port = str(parts.hostname), int(parts.port or 0)
    database = Database(lambda: node.database)
    try:
        token_row, token = new_token("bench", ["submit"], "bench", SystemClock())
        await database.write(add_token, token_row)
    finally:
        database.close()
    cookie = await _sign_in(host, port, parts.path)
    connections = [
        await HttpConnection.open(host, port, Authorization=f"Bearer {token}") for _ in range(arguments.connections)
    ]
    await _submit(connections, WARM_UP, arguments.size)
    assert node.pid is not None
    before = session_s(node.pid)
    result = await _submit(connections, arguments.documents, arguments.size)
    result["cpu_us"] = round((session_s(node.pid) - before) / arguments.documents * 1e6)
    show("submit", result)
    for connection in connections:
        connection.close()
    browser = await HttpConnection.open(host, port, Cookie=cookie)
    seconds = await _visit(browser, arguments.visits, console_pages())
    pages = _described(seconds)
    for name, paths in (("chart_page_p99_ms", CHARTS), ("ended_search_p99_ms", SEARCHES)):
        visited = await _visit(browser, arguments.visits, paths)
        pages["first_ms"] = {path: round(values[0] * 1000, 1) for path, values in visited.items()} | pages["first_ms"]
        pages[name] = _percentile_ms([value for values in visited.values() for value in values], 99)
    show("pages", pages)
    slowdown = await _slowdown(node, browser, arguments)
    show("node", slowdown)
    browser.close()
    return result | pages | slowdown


async def _sign_in(host: str, port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    return next(line for line in head.split("\r\n") if line.startswith("set-cookie: semq_")).split()[1].rstrip(";")


async def _submit(connections: list[HttpConnection], documents: int, size: int) -> Result:
    seconds: list[float] = []
    remaining = documents
    body = bytes(size)

    async def work(connection: HttpConnection) -> None:
        nonlocal remaining
        while remaining > 0:
            remaining -= 1
            began = time.perf_counter()
            status, answer = await connection.request("POST", f"/api/v1/documents?target={TARGET}", body)
            if status != 201:
                raise Incomplete(f"a submission was answered {status}: {answer[:300]!r}")
            seconds.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    rate = round(documents / (time.perf_counter() - began))
    return {"submit_per_s": rate, "p50_ms": _percentile_ms(seconds, 50), "p99_ms": _percentile_ms(seconds, 99)}


def console_pages() -> list[str]:
    """Return the paths of the pages without parameters; streams and files of all rows are left out."""
    paths = [str(route.path) for route in ROUTES if "GET" in (getattr(route, "methods", None) or ())]
    return [path for path in paths if "{" not in path and not path.startswith("/live") and not path.endswith(".csv")]


async def _visit(browser: HttpConnection, visits: int, paths: Sequence[str]) -> dict[str, list[float]]:
    """Return the seconds of the visits of each page."""
    seconds: dict[str, list[float]] = {path: [] for path in paths}
    for path in list(seconds) * visits:
        began = time.perf_counter()
        status, _ = await browser.request("GET", path)
        if status == 200:
            seconds[path].append(time.perf_counter() - began)
        elif status not in (303, 404):  # such a page needs parameters in the query
            raise Incomplete(f"{path} was answered {status}")
    return seconds


def _described(seconds: dict[str, list[float]]) -> Result:
    medians = {path: statistics.median(values) for path, values in sorted(seconds.items()) if values}
    all_seconds = [value for values in seconds.values() for value in values]
    first_ms = {path: round(values[0] * 1000, 1) for path, values in sorted(seconds.items()) if values}
    first_page = max(first_ms, key=lambda path: first_ms[path])
    return {
        "pages": len(medians), "page_p50_ms": _percentile_ms(all_seconds, 50),
        "page_p99_ms": _percentile_ms(all_seconds, 99), "slowest_page": max(medians, key=lambda path: medians[path]),
        "page_ms": {path: round(median * 1000, 1) for path, median in medians.items()},
        "first_page_ms": first_ms[first_page], "first_page": first_page, "first_ms": first_ms,
    }  # fmt: skip


async def _slowdown(node: NodeProcess, browser: HttpConnection, arguments: argparse.Namespace) -> Result:
    """Compare neighbouring moments of one stream of documents, one alone and one beside a viewer.

    The disk makes rates of minutes differ by a tenth; between neighbours it changes little, and every second pair is
    in the other order.
    """
    pairs: list[tuple[float, float]] = []  #: rates, alone and watched
    paths = cycle(console_pages())  # each moment goes on where the one before has ended
    async with Client(node.url) as client, _Publishers(client, arguments.size) as publishers:
        await publishers.rate_while(asyncio.sleep(MOMENT_S))
        for number in range(PAIRS):
            rates: dict[bool, float] = {}
            for is_watched in (number % 2 == 0, number % 2 == 1):
                moment = _view(browser, paths) if is_watched else asyncio.sleep(MOMENT_S)
                rates[is_watched] = await publishers.rate_while(moment)
            pairs.append((rates[False], rates[True]))
    slowdowns = sorted(round(1 - watched_per_s / alone_per_s, 4) for alone_per_s, watched_per_s in pairs)
    return {
        "node_per_s": round(statistics.median(alone_per_s for alone_per_s, _ in pairs)),
        "node_watched_per_s": round(statistics.median(watched_per_s for _, watched_per_s in pairs)),
        "node_slowdown": round(statistics.median(slowdowns), 4),
        "node_slowdowns": slowdowns,
    }


async def _view(browser: HttpConnection, paths: Iterator[str]) -> None:
    """Open a page each ``VIEWER_PAUSE_S`` for a moment."""
    ends = time.perf_counter() + MOMENT_S
    while time.perf_counter() < ends:
        next_at = time.perf_counter() + VIEWER_PAUSE_S
        await browser.request("GET", next(paths))
        await asyncio.sleep(min(next_at, ends) - time.perf_counter())


class _Publishers:
    """Tasks that submit documents over one connection, each the next one after its confirm."""

    def __init__(self, client: Client, size: int) -> None:
        self._client = client
        self._body = bytes(size)
        self._targets = cycle(str(number) for number in range(int(TARGET) + 1, int(TARGET) + 1 + TARGETS))
        self._confirmed = 0
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._running = [self._tasks.create_task(self._publish()) for _ in range(PUBLISHERS)]
        return self

    async def __aexit__(self, *error: Any) -> None:
        for task in self._running:
            task.cancel()
        await self._tasks.__aexit__(*error)

    async def _publish(self) -> None:
        while True:
            await self._client.send(next(self._targets), self._body)
            self._confirmed += 1

    async def rate_while(self, moment: Awaitable[None]) -> float:
        """Return the documents per second that were confirmed during a moment."""
        before, began = self._confirmed, time.perf_counter()
        await moment
        return (self._confirmed - before) / (time.perf_counter() - began)


def _percentile_ms(seconds: list[float], percent: int) -> float:
    ordered = sorted(seconds)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1000, 1)
