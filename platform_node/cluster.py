"""This hub as one of several instances: control database, homes, carrier (PROTOCOL.md section 10).

Made by ``node`` if the configuration has ``[cluster]``. A hub of one process does not use this module: its own
database is its control database, and it has no carrier.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import structlog

from platform_node.all_stores.asking import StoreAsking
from platform_node.directory import HubDirectory
from platform_node.errors import ControlOfAnotherHub, StoreNumberTaken
from platform_node.homes import HubHomes
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.carrier.amqp import AmqpCarrier
from semq.carrier.batch import KEY_BYTES
from semq.clock import Clock, draw_secret
from semq.config.cluster import ClusterSection
from semq.config.settings import Settings
from semq.engine.hub.carrier import StoreName
from semq.engine.hub.instances import Cluster
from semq.engine.hub_engine import HubEngine
from semq.service.clockwork import ScheduledJob
from semq.store.control import cluster as rows
from semq.store.postgres import schema_version
from semq.store.reader import Reader
from semq.store.work import Work
from semq.transport.dialer import DialConfig
from semq.transport.turn import Turn
from semq.umx_t.address import Address

FOLLOW_S = 5.0
HEARTBEAT_S = 10
CONNECT_S = 3.0
BATCH_OVERHEAD = 2 << 20  # of a batch over its largest document
ANSWER_MORE = 1 << 19  # of the largest answer to a question, over the largest document
Read = Callable[..., Awaitable[Any]]
log = structlog.get_logger("semq.cluster")


class Membership:
    """The membership of this process in its hub."""

    def __init__(self, settings: Settings, section: ClusterSection, clock: Clock, own: Read) -> None:
        self.homes = HubHomes()
        self.carrier: AmqpCarrier
        self.asking: StoreAsking  #: questions of operators to the other instances
        self._settings = settings
        self._section = section
        self._clock = clock
        self._own_url = None if section.control is None else section.control.get_secret_value()
        self._reader = None if self._own_url is None else Reader(lambda: self._own_url or "")
        self.store: StoreName = settings.node.semq_id, settings.node.semq_db_id
        self.read: Read = own if self._reader is None else self._reader.read  #: from the control database
        self._directory: HubDirectory
        self._life = 0
        self._identity: rows.HubIdentity

    # --- life
    async def open(self) -> None:
        """Read the control database. Raises ControlOfAnotherHub, SchemaTooOld, SchemaTooNew, StoreUnavailable."""
        if self._own_url is not None:
            await asyncio.to_thread(schema_version.check, self._own_url)
        hub = self._settings.node.id
        drawn = rows.HubIdentity(hub, self._clock.uuid(), draw_secret(KEY_BYTES))
        self._identity = await self.read(rows.claim_identity, *drawn)
        if self._identity.hub != hub:
            raise ControlOfAnotherHub(hub=self._identity.hub, configured=hub)

    def build(
        self,
        directory: HubDirectory,
        turn: Turn,
        post: Callable[[Work, bool], None],
        end_second: Callable[[Address], None],
    ) -> Cluster:
        """Return the ports of a new engine."""
        self._directory = directory
        if not hasattr(self, "carrier"):
            hub_id, key = self._identity.hub_id.hex, self._identity.carrier_key
            self.carrier = AmqpCarrier(self._ways(), hub_id, key, self._clock, turn, post)
            self.asking = StoreAsking(self.carrier, self._settings.protocol.max_document_bytes + ANSWER_MORE)
        return Cluster(self.carrier, self.homes, end_second)

    def begin(self, engine: HubEngine) -> None:
        """Join the others with a new engine."""
        assert engine.instances is not None
        self._life = engine.core.inc
        self.asking.begin(engine.instances)
        self.carrier.begin(self._life, self.store, self.asking)

    def stores(self) -> list[StoreName]:
        """Return the stores of the hub in the order in which they were added, without those that are retired."""
        return [store for store in self.homes.stores if self.homes.is_in_use(store)]

    async def admit(self, store_uuid: UUID, endpoint: str) -> None:
        """Add this instance and its store to the hub. Raises StoreNumberTaken."""
        known = await self.read(rows.open_store, self.store, store_uuid)
        if known != store_uuid:
            raise StoreNumberTaken(store=f"{self.store[0]}.{self.store[1]}", known=str(known), own=str(store_uuid))
        self._endpoint = endpoint
        await self.follow()

    async def follow(self) -> None:
        """Write a sign of life, read stores and homes, and allot missing homes."""
        facts = {
            "life": self._life, "semq_id": self.store[0], "semq_db_id": self.store[1],
            "host": socket.gethostname(), "endpoint": self._endpoint,
        }  # fmt: skip
        await self.read(rows.sign_of_life, facts)
        self.homes.stores = await self.read(rows.stores)
        self.homes.homes = await self.read(rows.homes)
        missing = self.homes.missing(self._directory.nodes())
        if missing:
            await self.read(rows.add_homes, missing)
            self.homes.homes = await self.read(rows.homes)  # another instance may have been quicker

    def jobs(self) -> list[ScheduledJob]:
        """Return the jobs."""
        return [ScheduledJob("cluster", FOLLOW_S, self.follow)]

    async def leave(self) -> None:
        """Leave the carrier before the store is closed; the others notice it immediately."""
        if hasattr(self, "carrier"):
            await self.carrier.stop()

    async def close(self) -> None:
        """Close the control database."""
        if self._reader is not None:
            await self._reader.close()

    # --- inside
    def _ways(self) -> list[DialConfig]:
        bytes_max = self._settings.protocol.max_document_bytes + BATCH_OVERHEAD
        limits = ConnectionLimits(
            heartbeat=HEARTBEAT_S, body_max=ANY_SIZE, arriving_max=2 * bytes_max, stream_from=bytes_max + 1
        )
        return [self._way(url.get_secret_value(), limits) for url in self._section.carrier]

    def _way(self, url: str, limits: ConnectionLimits) -> DialConfig:
        parts = urlsplit(url)
        is_tls = parts.scheme == "amqps"
        return DialConfig(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or (5671 if is_tls else 5672),
            virtual_host=unquote(parts.path[1:]) or "/",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            tls=ssl.create_default_context(cafile=self._section.trust) if is_tls else None,
            server_hostname=parts.hostname,
            limits=limits,
            connect_s=CONNECT_S,
            client_properties={"connection_name": f"SEMQ hub {self._settings.node.id}, store {self.store}"},
        )
