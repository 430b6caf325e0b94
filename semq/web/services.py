"""The services of the web process in one object: node, database, sessions, audit, limits, templates."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from starlette.requests import Request

from semq.app import Client
from semq.clock import Clock
from semq.config.settings import Settings
from semq.config.web import OidcSection
from semq.translations import Languages
from semq.web import mounts
from semq.web.access.limits import Attempts, Rates
from semq.web.access.node_login import node_admins
from semq.web.access.sessions import Sessions
from semq.web.access.tokens import Tokens
from semq.web.api.leases import Leases
from semq.web.api.logins import Logins
from semq.web.api.polls import Polls
from semq.web.api.sent_events import SentEvents
from semq.web.errors import NoHttpSection, OidcMissing, SpoolFull
from semq.web.node.audit import Audit
from semq.web.node.database import Database
from semq.web.node.operations import Operations, table
from semq.web.node.snapshots import Snapshots
from semq.web.pages.templates import environment
from semq.web.transport.bodies import ByteBudget
from semq.web.transport.streams import Streams

if TYPE_CHECKING:
    from semq.web.access.oidc import OidcProvider

PATIENCE_S = 8.0  # longest wait for a node that is not available


class Web:
    """The services of one web process, which serves one node."""

    def __init__(self, settings: Settings, url: str, find_database: Callable[[], str | None], clock: Clock) -> None:
        """``url``: AMQP URL of the node. ``find_database`` returns the URL of the database; None while it is down.

        Raises NoHttpSection, OidcMissing, BadUrl.
        """
        if settings.http is None:
            raise NoHttpSection(file=str(settings.file or ""))
        self.settings = settings
        self.http = settings.http
        self.node_url = url
        self.clock = clock
        self.is_tls = self.http.certificate is not None
        self.client = Client(url, patience_s=PATIENCE_S, clock=clock)
        #: a separate connection for large documents: the node may pause it, and an incomplete body closes it
        self.bulk = Client(url, patience_s=PATIENCE_S, clock=clock)
        self.database = Database(find_database)
        self.audit = Audit(self.database, clock)
        self.operations = Operations(table(settings.node.kind), self.client, self.audit)
        admins = node_admins(settings)
        self.sessions = Sessions(self.http, settings.address, admins, self.database, clock, is_tls=self.is_tls)
        self.tokens = Tokens(self.database, clock)
        self.memory = ByteBudget(self.http.memory_bytes)
        self.disk = ByteBudget(self.http.spool_bytes, SpoolFull)
        self.sent_events = SentEvents()
        #: by program: its queues of events are counted before one more is made
        self.making_queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.leases = Leases(self.http.leases)
        self.polls = Polls()
        self.rates = Rates(self.http.requests_per_s, self.http.burst, clock)
        self.attempts = Attempts(self.http.attempts_per_minute, clock)
        self.streams = Streams(self.http.streams)
        self.oidc = None if self.http.oidc is None else _provider(self.http.oidc, clock)
        self.logins = Logins(self, self.leases.has)
        self._snapshots = Snapshots(clock)
        parts = mounts.parts()
        self.folders = {part.name: part.folder for part in parts}
        self.languages = Languages([folder for part in parts for folder in part.translations])
        templates: list[Path] = [folder / "templates" for folder in self.folders.values()]
        self.templates = environment(templates, self.languages)
        self.routes = [route for part in parts for route in part.routes]

    async def snapshot(self, name: str, seconds: float, make: Callable[[], Awaitable[object]]) -> Any:
        """Return an answer that all visitors share. ``make`` makes a new one if the last is older than ``seconds``."""
        return await self._snapshots.get(name, seconds, make)

    async def close(self) -> None:
        await self.leases.close()
        await self.logins.close()
        await self.client.close()
        await self.bulk.close()
        await self.audit.close()
        self.database.close()


def _provider(section: OidcSection, clock: Clock) -> "OidcProvider":
    """Return the provider for sign-ins through OpenID Connect. Raises OidcMissing."""
    try:
        from semq.web.access.oidc import OidcProvider
    except ModuleNotFoundError as error:
        raise OidcMissing(package=error.name or "") from error
    return OidcProvider(section, clock)


def web_of(request: Request) -> Web:
    """Return the services for the handler of a request."""
    web: Web = request.app.state.web
    return web
