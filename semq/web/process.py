"""``python -m semq.web --config FILE``: serve console and API of one node until a signal, or until the node ends.

The process prints one line: ``console URL``. The URL is a one-time link if nobody can sign in yet.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import structlog
import uvloop

from semq.app.client import is_node_of
from semq.app.errors import LoginRefused, NodeUnreachable
from semq.clock import SystemClock
from semq.config.reach import admin_address_of, url_of
from semq.config.settings import Settings
from semq.config.web import HttpSection
from semq.service.companion import process as companion_process
from semq.service.companion.process import AsyncAction
from semq.service.nightly_extract import DATABASE_VARIABLE
from semq.store import accounts
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.files import write_safely
from semq.web.access.secret import hash_of, new_secret
from semq.web.application import build
from semq.web.errors import ForeignNode
from semq.web.pages.templates import compile_all
from semq.web.services import Web
from semq.web.transport.server import Server, address_of

log = structlog.get_logger("semq.web")


def main(argv: list[str] | None = None) -> int:
    """Serve the node of a configuration; return the exit status."""
    return companion_process.main("semq.web", "Serve console and HTTP API of a node.", serve, argv, uvloop.run)


async def serve(settings: Settings, url: str, wait_for_stop: AsyncAction) -> None:
    """Serve until ``wait_for_stop`` returns; ``url``: AMQP URL of the node.

    Raises NoHttpSection, OidcMissing, WebPortTaken, UnusablePath, BadUrl, ForeignNode.
    """
    web = Web(settings, url, database_finder(settings), SystemClock())
    server = Server(web.http, build(web))
    try:
        await server.start()
        if not web.http.port:
            write_safely(port_file(settings), str(server.port).encode())
        log.info("web_serves", url=server.url)

        async def announce() -> None:
            await web.sessions.end_former()
            print_line(await announcement(web, server.url))
            await compile_all(web.templates)
            await asyncio.Event().wait()  # the process ends when a job returns

        async def check() -> None:
            await check_node(web)
            await asyncio.Event().wait()

        await companion_process.run_until_stop(wait_for_stop, [announce, check])
    finally:
        await server.stop()
        await web.close()
        if not web.http.port:
            port_file(settings).unlink(missing_ok=True)


async def check_node(web: Web) -> None:
    """Raise ForeignNode if another node than that of the configuration answers; NodeUnreachable if none does."""
    with suppress(LoginRefused):  # each request reports it
        await web.client.connect()
    name = admin_address_of(web.settings).name
    if not is_node_of(web.client, name):
        raise ForeignNode(address=web.client.address, answers=web.client.node, configured=name)


async def announcement(web: Web, url: str) -> str:
    """Return the line to print, with a one-time link if nobody can sign in. Raises StoreUnavailable, QueryTooSlow."""
    link = await one_time_link(web, url, always=False)
    return f"console {link or url + '/'}"


async def one_time_link(web: Web, url: str, *, always: bool) -> str:
    """Return a new one-time link, which replaces earlier links; unless ``always``, empty if somebody can sign in."""
    secret, now = new_secret(), web.clock.wall()
    ends_at = now + timedelta(seconds=web.http.first_link_s)
    is_made = await web.database.write(accounts.store_first_link, hash_of(secret), now, ends_at, always=always)
    return f"{url}/first/{secret}" if is_made else ""


def print_line(line: str) -> None:
    """Print a line, if standard output is open."""
    try:
        print(line, flush=True)
    except OSError:
        log.info("output_closed", text="standard output is closed; `semq web --link` prints a new one-time link")


def database_finder(settings: Settings) -> Callable[[], str | None]:
    """Return a function that returns the URL of the node's database, or None while the embedded server does not run."""
    dsn = os.environ.get(DATABASE_VARIABLE) or settings.database.dsn
    if dsn:
        return lambda: dsn
    embedded = EmbeddedPostgres(settings.data_dir)
    return lambda: embedded.running_url() if settings.data_dir.exists() else None


def port_file(settings: Settings) -> Path:
    """Return the path of the file with the port of the running web process; it exists only if http.port is 0."""
    return settings.data_dir / "web-port"


def port_of(settings: Settings, http: HttpSection) -> int:
    """Return the configured port; if it is 0, the one in ``port_file``. Raises NodeUnreachable without this file."""
    file = port_file(settings)
    try:
        return http.port or int(file.read_text())
    except (OSError, ValueError) as error:
        raise NodeUnreachable("The web process does not run: it has written no port.", file=str(file)).with_remedy(
            "Start the node, or `semq web`, then repeat."
        ) from error


async def new_link(settings: Settings) -> str:
    """Return a new one-time link to the web process.

    Raises NoHttpSection, OidcMissing, BadUrl, StoreUnavailable, QueryTooSlow, NodeUnreachable.
    """
    web = Web(settings, url_of(settings), database_finder(settings), SystemClock())
    try:
        return await one_time_link(web, address_of(web.http, port_of(settings, web.http)), always=True)
    finally:
        await web.close()
