"""This hub as one of several instances: control database, homes, carrier (PROTOCOL.md section 10).

Used with ``[cluster]``. Without ``cluster.control``, the database of this instance is the control database.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

import structlog

from platform_node.all_stores.store_questions import NO_CARRIER, NOT_SERVED, StoreQuestions
from platform_node.directory import HubDirectory
from platform_node.errors import ControlOfAnotherHub, StoreIsRetired, StoreNumberTaken, StoreServed
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
from semq.pki.errors import TrustUnreadable
from semq.service.admin import committed
from semq.service.clockwork import ScheduledJob
from semq.store.control import cluster as rows
from semq.store.control.cluster import OpenedStore, StoreState
from semq.store.identities import retired_stores
from semq.store.postgres import schema_version
from semq.store.reader import Execute, Reader
from semq.store.rows import RetiredStore
from semq.store.work import Work
from semq.transport.dialer import DialConfig
from semq.transport.tls_files import TlsFiles
from semq.transport.turn import Turn
from semq.umx_t.address import Address

FOLLOW_S = 5.0  # between two signs of life in the control database
HEARTBEAT_S = 10  # of the connection to the carrier
CONNECT_S = 3.0
BATCH_OVERHEAD = 2 << 20  # bytes of a batch beyond its largest document
ANSWER_MORE = 1 << 19  # bytes of an answer beyond the largest document
log = structlog.get_logger("semq.cluster")


class Membership:
    """The membership of this process in its hub."""

    def __init__(
        self,
        settings: Settings,
        section: ClusterSection,
        clock: Clock,
        execute: Execute,
        state: Callable[[], StoreState],
    ) -> None:
        """``execute`` runs queries on the store of this instance; ``state`` returns the store's state."""
        self.homes = HubHomes()
        self.carrier: AmqpCarrier
        self.store_questions: StoreQuestions
        self._settings = settings
        self._section = section
        self._clock = clock
        self._control_url = None if section.control is None else section.control.get_secret_value()
        self._reader = None if self._control_url is None else Reader(lambda: self._control_url or "")
        self.store: StoreName = settings.node.semq_id, settings.node.semq_db_id
        #: runs queries and changes on the control database
        self.execute: Execute = execute if self._reader is None else self._reader.execute
        self._directory: HubDirectory
        self._state = state
        self._life = 0
        self._engine: HubEngine
        self._read_at: datetime | None = None  #: time of the last read of homes, by the clock of the control database
        self._identity: rows.HubIdentity

    # --- life
    async def open(self) -> None:
        """Read the hub's identity from the control database; the first instance writes it.

        Raises ControlOfAnotherHub, SchemaTooOld, SchemaTooNew, StoreUnavailable.
        """
        if self._control_url is not None:
            await asyncio.to_thread(schema_version.check, self._control_url)
        hub = self._settings.node.id
        new_identity = rows.HubIdentity(hub, self._clock.uuid(), draw_secret(KEY_BYTES))
        self._identity = await self.execute(rows.claim_identity, *new_identity)
        if self._identity.hub != hub:
            raise ControlOfAnotherHub(hub=self._identity.hub, configured=hub)

    def build(
        self,
        directory: HubDirectory,
        turn: Turn,
        post: Callable[[Work, bool], None],
        end_older_session: Callable[[Address], None],
    ) -> Cluster:
        """Return a new engine's connection to the other instances."""
        self._directory = directory
        if not hasattr(self, "carrier"):
            hub_id, key = self._identity.hub_id.hex, self._identity.carrier_key
            self.carrier = AmqpCarrier(self._dial_configs(), hub_id, key, self._clock, turn, post)
            self.store_questions = StoreQuestions(
                self.carrier, self._settings.protocol.max_document_bytes + ANSWER_MORE
            )
        return Cluster(self.carrier, self.homes, end_older_session)

    def begin(self, engine: HubEngine) -> None:
        assert engine.instances is not None
        self._life, self._engine = engine.core.inc, engine
        self.store_questions.begin(engine.instances)
        self.carrier.begin(self._life, self.store, self.store_questions)

    def stores(self) -> list[StoreName]:
        """Return the opened stores that are not retired, in the order in which they were added."""
        return self.homes.in_use()

    async def served(self) -> list[str]:
        """Return the names of the stores of all running instances."""
        instances: list[rows.InstanceRow] = await self.execute(rows.instances)
        return sorted({f"{instance.semq_id}.{instance.semq_db_id}" for instance in instances if instance.is_alive})

    async def admit(self, store_uuid: UUID, endpoint: str) -> bool:
        """Add this instance and its store to the hub. Raises StoreNumberTaken, StoreIsRetired.

        Return whether the store is older than the state noted in the control database, as after a restore.
        """
        if self.store in {row.name for row, _ in await self.execute(retired_stores)}:
            raise StoreIsRetired(store=f"{self.store[0]}.{self.store[1]}")
        noted: OpenedStore = await self.execute(rows.open_store, self.store, store_uuid)
        if noted.store_uuid != store_uuid:
            store = f"{self.store[0]}.{self.store[1]}"
            raise StoreNumberTaken(store=store, known=str(noted.store_uuid), own=str(store_uuid))
        present = self._state()
        self._endpoint, self._store_uuid = endpoint, store_uuid
        await self.follow()
        return present.boot <= noted.state.boot or present[1:] < noted.state[1:]

    async def follow(self) -> None:
        """Write a sign of life, and read changes of other instances. Raises StoreIsRetired."""
        facts = {
            "life": self._life, "semq_id": self.store[0], "semq_db_id": self.store[1],
            "host": socket.gethostname(), "endpoint": self._endpoint,
        }  # fmt: skip
        await self.execute(rows.note_sign_of_life, facts, self._store_uuid, self._state())
        await self.read_homes()

    async def read_homes(self) -> None:
        """Read stores and homes, note retired stores, assign missing homes. Raises StoreIsRetired."""
        self.homes.stores = await self.execute(rows.stores)
        retired = {row.name: row for row, _ in await self.execute(retired_stores)}
        if self.store in retired:
            raise StoreIsRetired(store=f"{self.store[0]}.{self.store[1]}")
        self.homes.retired = set(retired)
        await self._retire(retired)
        await self._read_changed()
        missing = self.homes.missing_homes(self._directory.nodes())
        if missing:
            await self.execute(rows.add_homes, missing, self.homes.retired)
            await self._read_changed()  # another instance may have assigned some
        if missing and self.homes.missing_homes(self._directory.nodes()):
            self._read_at = None  # read all: after a restore, the clock of the control database may be behind
            await self._read_changed()

    async def _read_changed(self) -> None:
        changed, self._read_at = await self.execute(rows.homes, self._read_at)
        self.homes.homes |= changed

    async def _retire(self, retired: Mapping[StoreName, RetiredStore]) -> None:
        """Note retired stores in the own store, to answer inquiries about them."""
        stores = self._engine.custody.stores
        for name, row in retired.items():
            if name not in stores.retired:
                await committed(partial(stores.retire, name, row.retired_by, row.why))
                log.warning("store_retired", store=f"{name[0]}.{name[1]}", by=row.retired_by, why=row.why)

    async def retire(self, row: RetiredStore) -> bool:
        """Declare a store lost for all instances. Return whether it was retired before. Raises StoreServed."""
        was_retired = row.name in self.homes.retired
        store = f"{row.semq_id}.{row.semq_db_id}"
        # An instance that cannot reach the control database may still serve the store: ask over the carrier.
        answer = await self.store_questions.ask(row.name, "hub.instances", {}, row.retired_by)
        if answer.unreached not in (NO_CARRIER, NOT_SERVED):
            raise StoreServed(store=store)
        endpoint = await self.execute(rows.retire, row)
        if endpoint is not None:
            raise StoreServed(store=store, endpoint=endpoint)
        await self.read_homes()
        return was_retired

    def jobs(self, fail: Callable[[Exception], None]) -> list[ScheduledJob]:
        """Return the jobs. ``fail`` ends the process."""

        async def follow() -> None:
            try:
                await self.follow()
            except StoreIsRetired as error:
                log.error("store_is_retired", error=error.advice())
                fail(error)

        return [ScheduledJob("cluster", FOLLOW_S, follow)]

    async def leave(self) -> None:
        """Leave the carrier, which the other instances notice at once."""
        if hasattr(self, "carrier"):
            await self.carrier.stop()

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()

    # --- inside
    def _dial_configs(self) -> list[DialConfig]:
        bytes_max = self._settings.protocol.max_document_bytes + BATCH_OVERHEAD
        limits = ConnectionLimits(
            heartbeat=HEARTBEAT_S, body_max=ANY_SIZE, arriving_max=2 * bytes_max, stream_from=bytes_max + 1
        )
        return [self._dial_config(url.get_secret_value(), limits) for url in self._section.carrier]

    def _dial_config(self, url: str, limits: ConnectionLimits) -> DialConfig:
        parts = urlsplit(url)
        is_tls = parts.scheme == "amqps"
        return DialConfig(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or (5671 if is_tls else 5672),
            virtual_host=unquote(parts.path[1:]) or "/",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            tls=TlsFiles((self._section.trust,), partial(carrier_context, self._section.trust)) if is_tls else None,
            server_hostname=parts.hostname,
            limits=limits,
            connect_s=CONNECT_S,
            client_properties={"connection_name": f"SEMQ hub {self._settings.node.id}, store {self.store}"},
        )


def carrier_context(trust: Path | None) -> ssl.SSLContext:
    """Return the TLS context for connections to the carrier. Raises TrustUnreadable.

    ``trust``: file with authorities; None: the authorities of this machine.
    """
    try:
        return ssl.create_default_context(cafile=trust)
    except OSError as error:  # also ssl.SSLError
        raise TrustUnreadable(file=str(trust), fault=str(error)) from error
