"""The database of a node: the configured one, or a Postgres of its own in its data directory; migrated, or refused."""

import asyncio

from semq.config.settings import Settings
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import migration


class NodeDatabase:
    """Opened before the store, closed after it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedded: EmbeddedPostgres | None = None

    async def open(self) -> str:
        """The URL of a database whose schema fits this program. Raises SemqError (see ``semq.store.embedded``,
        ``semq.store.postgres.migration``)."""
        url = self._settings.database.dsn
        if url is None:
            embedded = EmbeddedPostgres(self._settings.data_dir)
            url = await asyncio.to_thread(embedded.start)
            # Ours from here on: a start that was refused must not stop the server of whoever owns the folder.
            self._embedded = embedded
        if self._settings.database.migrate:
            await asyncio.to_thread(migration.upgrade, url)
        else:
            await asyncio.to_thread(migration.check, url)
        return url

    async def revive(self) -> None:
        """Start the embedded server again if it has died; a configured one is somebody else's to start."""
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.start)

    @property
    def is_gone(self) -> bool:
        """Whether the embedded server has died; of a configured one we know only what its connections say."""
        return self._embedded is not None and self._embedded.pid is None

    async def close(self) -> None:
        """Stop the embedded server."""
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.stop)
