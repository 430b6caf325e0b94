"""The database of a node: the configured one, or a Postgres of its own in its data directory; its unmet requirements.

The list of requirements is ``semq.store.postgres.conditions.requirements``, which the start of a node and ``semq
doctor`` check, too.
"""

import asyncio
from pathlib import Path

from semq.config.settings import Settings
from semq.errors import unusable_path_of
from semq.service.clockwork import ScheduledJob
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.files import write_safely
from semq.store.postgres import schema_version
from semq.store.postgres.store import PostgresStore

CHECK_S = 60.0  # between two checks of the requirements


class NodeDatabase:
    """The database of a node."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedded: EmbeddedPostgres | None = None

    async def open(self) -> str:
        """Start the embedded server if no database is configured, and return the URL.

        Raises SemqError (see ``semq.store.embedded``).
        """
        url = self._settings.database.dsn
        if url is None:
            embedded = EmbeddedPostgres(self._settings.data_dir)
            url = await asyncio.to_thread(embedded.start)
            # Only after a successful start: a server that refused to start belongs to another process.
            self._embedded = embedded
        return url

    @property
    def known_store(self) -> str | None:
        """The identity of the store that this node has opened last under the configured numbers.

        None: unknown, or the server is embedded. Other numbers (``node.semq_id``, ``node.semq_db_id``) are configured
        for another store on purpose.
        """
        if self._settings.database.dsn is None:
            return None
        try:
            numbers, _, identity = self._identity_file.read_text("utf-8", errors="replace").strip().partition(" ")
        except FileNotFoundError:
            return None
        return identity or None if numbers == self._numbers else None

    def remember_store(self, store_uuid: str) -> None:
        """Note the identity of the opened store in the data folder, so that an empty one is not taken for it.

        Raises UnusablePath.
        """
        if self._settings.database.dsn is not None and self.known_store != store_uuid:
            try:
                write_safely(self._identity_file, f"{self._numbers} {store_uuid}\n".encode(), 0o600)
            except OSError as error:
                raise unusable_path_of(error) or error from error

    @property
    def _numbers(self) -> str:
        return f"{self._settings.node.semq_id}.{self._settings.node.semq_db_id}"

    @property
    def _identity_file(self) -> Path:
        return self._settings.data_dir / "store"

    async def update(self, url: str, revision: str | None) -> None:
        """Upgrade the schema from ``revision`` if ``database.migrate`` is true.

        Raises SchemaTooOld without ``database.migrate``, SchemaTooNew, SchemaBeforeRelease, and the errors of
        ``semq.store.postgres.migration``.
        """
        if self._settings.database.migrate and revision != schema_version.head():
            await asyncio.to_thread(_upgrade, url)
        else:
            schema_version.refuse_other(revision)

    async def revive(self) -> str | None:
        """Start the embedded server again if it has died, and return its URL; the port may have changed.

        Returns None for a configured server.
        """
        return None if self._embedded is None else await asyncio.to_thread(self._embedded.start)

    @property
    def is_gone(self) -> bool:
        """Whether the embedded server has died. False for a configured server."""
        return self._embedded is not None and self._embedded.pid is None

    async def close(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.stop)


def _upgrade(url: str) -> None:
    from semq.store.postgres.migration import upgrade  # imports Alembic, which takes long

    upgrade(url)


class Requirements:
    """The unmet requirements of a running node, and sessions that hinder it, for health and status."""

    def __init__(self, store: PostgresStore, poll_factor: float) -> None:
        self._store = store
        self._every_s = CHECK_S * poll_factor
        self.unmet: list[str] = []

    def jobs(self) -> list[ScheduledJob]:
        return [ScheduledJob("requirements", self._every_s, self.check)]

    async def check(self) -> None:
        """Check the database again. Raises StoreUnavailable."""
        self.unmet = await self._store.unmet_requirements()
