"""The claim of this process to its node's store, and the standby while another process of the same node owns the store.

A standby listens on no port, checks the lease at least every two seconds, and serves as soon as the lease has expired
or was released (PROTOCOL.md section 10).
"""

import asyncio
import socket

import structlog

from semq.clock import Clock
from semq.config.settings import Settings
from semq.errors import Unavailable
from semq.store.postgres.errors import LeaseHeld
from semq.store.postgres.owner import EMBEDDED, Owner, PlaceLock
from semq.store.postgres.store import PostgresStore
from semq.store.unit import Recovered

CHECK_S_MIN, CHECK_S_MAX = 0.2, 2.0  # the pause between two checks of the lease
log = structlog.get_logger("semq.standby")


class Claim:
    """The claim of this process to the store of its node."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.is_waiting = False  #: another process owns the store
        self.has_waited = False  #: another process has owned the store since this process started
        self._node = str(settings.own_store)
        self._host = "_".join(socket.gethostname().split()) or "?"
        self._process = clock.uuid().hex
        self._lock = None if settings.database.url is None else PlaceLock(settings.data_dir)

    def owner(self) -> Owner:
        """Return this process as an owner. Each call tries again to lock the data directory."""
        place = EMBEDDED if self._lock is None else self._lock.take()
        return Owner(self._node, self._host, self._process, place)

    async def open(self, store: PostgresStore) -> Recovered:
        """Open the store for the first time, as soon as no other process owns it.

        Raises the errors of ``PostgresStore.start``, except LeaseHeld, and Unavailable while it waits for the owner.
        """
        owner_before = ""
        while True:
            store.owner = self.owner()
            try:
                recovered = await store.start()
            except LeaseHeld as error:
                self.is_waiting = self.has_waited = True
                if error.facts["owner"] != owner_before:
                    owner_before = error.facts["owner"]
                    log.warning("standby", owner=owner_before, until_s=error.facts["until_s"])
                pause_s = min(max(error.facts["until_s"], CHECK_S_MIN), CHECK_S_MAX)
            except Unavailable as error:
                if not self.is_waiting:
                    raise
                log.warning("store_away", error=str(error), again_in_s=CHECK_S_MAX)
                pause_s = CHECK_S_MAX
            else:
                if self.is_waiting:
                    log.info("standby_over", owner=str(store.owner))
                self.is_waiting = False
                return recovered
            await asyncio.sleep(pause_s)

    def release(self) -> None:
        """Release the claim. Called after the store is closed."""
        if self._lock is not None:
            self._lock.release()
