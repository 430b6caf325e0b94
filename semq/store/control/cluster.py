"""The control database of a hub with several instances: its identity, stores, homes of institutions, instances.

Functions for ``semq.store.reader.Reader.execute``; each change is a transaction of its own.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from semq.store.control.cluster_tables import hub_identity, hub_instance, hub_store, node_home
from semq.store.rows import RetiredStore
from semq.store.tables import semq_retired_store

VALID_S = 15  # time without a sign of life after which an instance counts as ended
HOMES_TRANSACTION_S_MAX = 60  # assumed longest time of a transaction that sets homes
PAGE = 10_000  # homes in one round trip
KEPT_S = 86_400  # time for which ended instances stay recorded
StoreName = tuple[int, int]  # semq_id, semq_db_id


class HubIdentity(NamedTuple):
    """The hub to which a control database belongs."""

    hub: str
    hub_id: UUID
    carrier_key: bytes


class KnownStore(NamedTuple):
    """A store of the hub."""

    weight: float  #: relative share of new homes
    is_open: bool  #: an instance has opened it at least once


class StoreState(NamedTuple):
    """The state of a store; a later state is greater as a tuple."""

    boot: int  #: number of openings
    chain_place: int  #: number of the last link of the ledger's chain
    chain_count: int  #: ledger lines in the last link


class OpenedStore(NamedTuple):
    """The hub's record of a store, with its newest recorded state."""

    store_uuid: UUID
    state: StoreState


class HomesRead(NamedTuple):
    """Homes read from the control database."""

    homes: dict[str, StoreName]
    at: datetime  #: time of reading, by the clock of the database


class InstanceRow(Struct, frozen=True):
    """One incarnation of an instance, as last reported."""

    life: int  #: number of the incarnation
    semq_id: int
    semq_db_id: int
    host: str
    endpoint: str
    started_at: datetime
    until: datetime  #: counts as ended from this time on, unless it reports again
    is_alive: bool


def claim_identity(connection: Connection, hub: str, hub_id: UUID, carrier_key: bytes) -> HubIdentity:
    """Return the hub of this control database. If it has none, record this hub."""
    values = {"hub": hub, "hub_id": hub_id, "carrier_key": carrier_key}
    with connection.begin():
        connection.execute(insert(hub_identity).values(**values).on_conflict_do_nothing())
        row = connection.execute(select(hub_identity.c.hub, hub_identity.c.hub_id, hub_identity.c.carrier_key)).one()
    return HubIdentity(row.hub, row.hub_id, bytes(row.carrier_key))


def open_store(connection: Connection, store: StoreName, store_uuid: UUID) -> OpenedStore:
    """Return the hub's record of a store. Add an unknown store; set the UUID of a store that was never opened."""
    table = hub_store.c
    with connection.begin():
        values = {"semq_id": store[0], "semq_db_id": store[1], "store_uuid": store_uuid}
        connection.execute(insert(hub_store).values(**values).on_conflict_do_nothing())
        is_new = table.store_uuid.is_(None)
        connection.execute(update(hub_store).where(_is(store), is_new).values(store_uuid=store_uuid))
        row = connection.execute(select(hub_store).where(_is(store))).one()
    return OpenedStore(row.store_uuid, StoreState(row.boot, row.chain_place, row.chain_count))


def _is(store: StoreName) -> ColumnElement[bool]:
    return and_(hub_store.c.semq_id == store[0], hub_store.c.semq_db_id == store[1])


def stores(connection: Connection) -> dict[StoreName, KnownStore]:
    """Return the stores in the order in which they were added."""
    query = select(hub_store).order_by(hub_store.c.added_at, hub_store.c.semq_id, hub_store.c.semq_db_id)
    return {
        (row.semq_id, row.semq_db_id): KnownStore(row.weight, row.store_uuid is not None)
        for row in connection.execute(query)
    }


def set_weight(connection: Connection, store: StoreName, weight: float) -> None:
    """Set the weight of a store; add an unknown store."""
    values = {"semq_id": store[0], "semq_db_id": store[1], "weight": weight}
    with connection.begin():
        new = insert(hub_store).values(**values)
        key = ["semq_id", "semq_db_id"]
        connection.execute(new.on_conflict_do_update(index_elements=key, set_={"weight": weight}))


def homes(connection: Connection, since: datetime | None = None) -> HomesRead:
    """Return all homes, or those set after ``since``, the time ``at`` of an earlier ``HomesRead``.

    With ``since``, some older homes may be among them.
    """
    query = select(node_home.c.node, node_home.c.semq_id, node_home.c.semq_db_id)
    if since is not None:
        # A transaction that began before the earlier reading may have been committed after it.
        query = query.where(node_home.c.since > since - timedelta(seconds=HOMES_TRANSACTION_S_MAX))
    homes_read: dict[str, StoreName] = {}
    with connection.begin():
        now: datetime = connection.execute(select(func.now())).scalar_one()
        rows = connection.execution_options(stream_results=True, yield_per=PAGE).execute(query)
        for row in rows:
            homes_read[row.node] = (row.semq_id, row.semq_db_id)
    return HomesRead(homes_read, now)


def add_homes(connection: Connection, drawn: Mapping[str, StoreName], retired: Collection[StoreName] = ()) -> None:
    """Set the homes of nodes that have none, or whose home is a retired store."""
    table = node_home.c
    with connection.begin():
        for rows in _pages(drawn):
            new = insert(node_home)
            is_retired = or_(
                false(), *(and_(table.semq_id == store[0], table.semq_db_id == store[1]) for store in sorted(retired))
            )
            set_ = {name: new.excluded[name] for name in ("semq_id", "semq_db_id")} | {"since": func.now()}
            connection.execute(new.on_conflict_do_update(index_elements=["node"], set_=set_, where=is_retired), rows)


def move_homes(connection: Connection, moved: Mapping[str, StoreName]) -> None:
    """Set the homes of nodes, also of nodes that have other homes."""
    with connection.begin():
        for rows in _pages(moved):
            new = insert(node_home)
            set_ = {name: new.excluded[name] for name in ("semq_id", "semq_db_id")} | {"since": func.now()}
            connection.execute(new.on_conflict_do_update(index_elements=["node"], set_=set_), rows)


def retire(connection: Connection, row: RetiredStore) -> str | None:
    """Record that a store is permanently lost. If an instance still serves it, only return the instance's endpoint."""
    served = select(hub_instance.c.endpoint).where(
        hub_instance.c.semq_id == row.semq_id, hub_instance.c.semq_db_id == row.semq_db_id,
        hub_instance.c.until > func.now(),
    )  # fmt: skip
    with connection.begin():
        endpoint: str | None = connection.execute(served.limit(1)).scalar_one_or_none()
        if endpoint is not None:
            return endpoint
        values = {
            "semq_id": row.semq_id, "semq_db_id": row.semq_db_id, "retired_by": row.retired_by, "why": row.why,
        }  # fmt: skip
        connection.execute(insert(semq_retired_store).values(**values).on_conflict_do_nothing())
    return None


def _pages(homes_of: Mapping[str, StoreName]) -> Iterator[list[dict[str, object]]]:
    rows = [{"node": node, "semq_id": store[0], "semq_db_id": store[1]} for node, store in homes_of.items()]
    for start in range(0, len(rows), PAGE):
        yield rows[start : start + PAGE]


def note_sign_of_life(connection: Connection, facts: Mapping[str, object], store_uuid: UUID, state: StoreState) -> None:
    """Record that an instance runs, and the state of its store. Delete instances that ended more than KEPT_S ago.

    If the control database was restored from a backup that lacks the store, the store is added again.
    ``facts``: life, semq_id, semq_db_id, host and endpoint of the instance.
    """
    until = func.now() + text(f"interval '{VALID_S} seconds'")
    table = hub_instance
    with connection.begin():
        connection.execute(
            insert(table)
            .values(**facts, until=until)
            .on_conflict_do_update(index_elements=["life"], set_={"until": until})
        )
        store = {"semq_id": facts["semq_id"], "semq_db_id": facts["semq_db_id"]}
        known = insert(hub_store).values(**store, store_uuid=store_uuid, **state._asdict())
        set_ = state._asdict() | {"store_uuid": func.coalesce(hub_store.c.store_uuid, store_uuid)}
        connection.execute(known.on_conflict_do_update(index_elements=list(store), set_=set_))
        connection.execute(table.delete().where(table.c.until < func.now() - text(f"interval '{KEPT_S} seconds'")))


def instances(connection: Connection) -> list[InstanceRow]:
    """Return the recorded instances, running or ended, the newest first."""
    query = select(hub_instance, (hub_instance.c.until > func.now()).label("is_alive"))
    rows = connection.execute(query.order_by(hub_instance.c.started_at.desc()))
    return [InstanceRow(**row._mapping) for row in rows]
