"""``./run bench http``: submissions over HTTP, pages of the console over large tables, and what an open console costs.

One node by itself, without its hub, so that what waits keeps waiting. Before it starts, its tables are filled:
``--waiting`` messages and ``--lines`` of the ledger. All figures come from that state.

    submit_per_s      documents per second over ``--connections`` connections, each answered after its commit
    p50_ms, p99_ms    of these requests
    cpu_us            processor time a document in node, web process and Postgres
    page_p50_ms, page_p99_ms, pages    of the console's pages, each opened several times, one after the other
    node_slowdown     share of its rate that the node loses to AMQP clients while pages are opened again and again
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

from bench import cli
from bench.cli import Result, say, show
from bench.errors import Incomplete
from bench.gauges import session_s
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
from semq.web.node.database import Database

NODE, TARGET = "a", "56001"
ROUNDS = 3  # rounds of the node alone and with an open console, in turns
OPEN_PAUSE_S = 1.0  # pause between two pages of a simulated viewer
PUBLISHERS = 32
WARM_UP = 300
SUMMARY = """
{documents} documents of {size} bytes by HTTP over {connections} connections, {waiting} waiting, {lines} ledger lines
  submit   {submit_per_s:>8}/s, {p50_ms} ms p50, {p99_ms} ms p99, {cpu_us} µs of processor time each
  pages    {page_p50_ms:>8} ms p50, {page_p99_ms} ms p99 of {pages} pages; slowest {slowest_page}
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
    parser.add_argument("--visits", type=cli.count, default=5, metavar="N", help="times that each page is opened (5)")
    arguments = parser.parse_args(argv)
    return cli.in_folder(lambda folder: run(folder, arguments), arguments, lambda found: SUMMARY.format(**found))


async def run(folder: Path, arguments: argparse.Namespace) -> Result:
    """Run all phases and return the figures."""
    plan = InstallationPlan({NODE: "10008"}, ApplicationLogin("bench", "bench"), every={"http.port": 0})
    places = plan.write(folder)
    del places[HUB]
    node = NodeProcess(places[NODE])
    say(f"filling the tables: {arguments.waiting} waiting messages, {arguments.lines} lines of the ledger ...")
    await asyncio.to_thread(_fill, node, arguments.waiting, arguments.lines)
    say("starting the node ...")
    try:
        await asyncio.to_thread(node.start)
        link = await asyncio.to_thread(node.console)
        if not link:
            raise Incomplete(f"the node has ended: {node.log_tail()}")
        found = await _measured(node, link, arguments)
    finally:
        await asyncio.to_thread(node.clear)
    keys = ("documents", "size", "connections", "waiting", "lines")
    return {"bench": "http"} | {key: getattr(arguments, key) for key in keys} | found


def _fill(node: NodeProcess, waiting: int, lines: int) -> None:
    node.start()  # its first start makes the tables, and numbers its record ids
    node.end()
    with EmbeddedPostgres(node.place.data_dir) as server:
        large_tables.fill(server.url, waiting, lines)


async def _measured(node: NodeProcess, link: str, arguments: argparse.Namespace) -> Result:
    parts = urlsplit(link)
    host, port = str(parts.hostname), int(parts.port or 0)
    database = Database(lambda: node.database)
    try:
        made, token = new_token("bench", ["submit"], "bench", SystemClock())
        await database.write(add_token, made)
    finally:
        database.close()
    cookie = await _signed_in(host, port, parts.path)
    connections = [
        await HttpConnection.open(host, port, Authorization=f"Bearer {token}") for _ in range(arguments.connections)
    ]
    await _submitted(connections, WARM_UP, arguments.size)
    assert node.pid is not None
    before = session_s(node.pid)
    found = await _submitted(connections, arguments.documents, arguments.size)
    found["cpu_us"] = round((session_s(node.pid) - before) / arguments.documents * 1e6)
    show("submit", found)
    for connection in connections:
        connection.close()
    browser = await HttpConnection.open(host, port, Cookie=cookie)
    pages = await _visited(browser, arguments.visits)
    show("pages", pages)
    slowdown = await _slowed(node, browser, arguments)
    show("node", slowdown)
    browser.close()
    return found | pages | slowdown


async def _signed_in(host: str, port: int, path: str) -> str:
    """Use the one-time link; return the cookie."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    return next(line for line in head.split("\r\n") if line.startswith("set-cookie: semq_")).split()[1].rstrip(";")


async def _submitted(connections: list[HttpConnection], documents: int, size: int) -> Result:
    took: list[float] = []
    left = documents
    body = bytes(size)

    async def work(connection: HttpConnection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            status, answer = await connection.ask("POST", f"/api/v1/documents?target={TARGET}", body)
            if status != 201:
                raise Incomplete(f"a submission was answered {status}: {answer[:300]!r}")
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    rate = round(documents / (time.perf_counter() - began))
    return {"submit_per_s": rate, "p50_ms": _ms(took, 50), "p99_ms": _ms(took, 99)}


def console_pages() -> list[str]:
    """Return the pages that can be opened alone: no forms, no streams, no parameters."""
    paths = [str(route.path) for route in ROUTES if "GET" in (getattr(route, "methods", None) or ())]
    return [path for path in paths if "{" not in path and not path.startswith("/live")]


async def _visited(browser: HttpConnection, visits: int) -> Result:
    took: dict[str, list[float]] = {path: [] for path in console_pages()}
    opened = dict(took)
    for path in list(took) * visits:
        began = time.perf_counter()
        status, _ = await browser.ask("GET", path)
        if status == 200:
            took[path].append(time.perf_counter() - began)
        elif status not in (303, 404):  # pages that need a choice
            raise Incomplete(f"{path} was answered {status}")
    opened = {path: each for path, each in took.items() if each}
    every = [one for each in opened.values() for one in each]
    slowest = max(opened, key=lambda path: statistics.median(opened[path]))
    return {
        "pages": len(opened), "page_p50_ms": _ms(every, 50), "page_p99_ms": _ms(every, 99), "slowest_page": slowest,
        "page_ms": {path: round(statistics.median(each) * 1000, 1) for path, each in sorted(opened.items())},
    }  # fmt: skip


async def _slowed(node: NodeProcess, browser: HttpConnection, arguments: argparse.Namespace) -> Result:
    async with Client(node.url) as client:
        alone, watched = [], []
        for _ in range(ROUNDS):
            alone.append(await _rate(client, arguments.documents // 2, arguments.size))
            watched.append(await _while_open(browser, lambda: _rate(client, arguments.documents // 2, arguments.size)))
    before, after = statistics.median(alone), statistics.median(watched)
    return {
        "node_per_s": round(before),
        "node_watched_per_s": round(after),
        "node_slowdown": round(1 - after / before, 4),
    }


async def _while_open(browser: HttpConnection, work: Callable[[], Awaitable[float]]) -> float:
    over = asyncio.Event()

    async def look() -> None:
        for path in cycle(console_pages()):
            await browser.ask("GET", path)
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), OPEN_PAUSE_S)
            if over.is_set():
                return

    looking = asyncio.create_task(look())
    try:
        return await work()
    finally:
        over.set()
        await looking


async def _rate(client: Client, documents: int, size: int) -> float:
    left, body = documents, bytes(size)

    async def publish() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await client.send(TARGET, body)

    began = time.perf_counter()
    await asyncio.gather(*(publish() for _ in range(PUBLISHERS)))
    return documents / (time.perf_counter() - began)


def _ms(took: list[float], percent: int) -> float:
    ordered = sorted(took)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1000, 1)
