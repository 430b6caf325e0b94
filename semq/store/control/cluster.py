"""The control database of a hub with several instances: its identity, stores, homes of institutions, instances.

Functions on a connection of a ``semq.store.reader.Reader``; each change is a transaction of its own. Used by
``platform_node.cluster``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from semq.store.control.cluster_tables import hub_identity, hub_instance, hub_store, node_home

VALID_S = 15  # an instance without a sign of life for so long counts as ended
KEPT_S = 86_400  # ended instances are shown for a day
StoreName = tuple[int, int]


class HubIdentity(NamedTuple):
    """The hub to which a control database belongs."""

    hub: str
    hub_id: UUID
    carrier_key: bytes


@dataclass(frozen=True, slots=True)
class RunningInstance:
    """A life of an instance, as it last said."""

    life: int
    semq_id: int
    semq_db_id: int
    host: str
    endpoint: str
    started_at: datetime
    until: datetime
    is_alive: bool


def claim_identity(connection: Connection, hub: str, hub_id: UUID, carrier_key: bytes) -> HubIdentity:
    """Return whose control database this is; the given hub's from now on, if it was nobody's."""
    values = {"hub": hub, "hub_id": hub_id, "carrier_key": carrier_key}
    with connection.begin():
        connection.execute(insert(hub_identity).values(**values).on_conflict_do_nothing())
        row = connection.execute(select(hub_identity.c.hub, hub_identity.c.hub_id, hub_identity.c.carrier_key)).one()
    return HubIdentity(row.hub, row.hub_id, bytes(row.carrier_key))


def open_store(connection: Connection, store: StoreName, store_uuid: UUID) -> UUID:
    """Add a store to the hub's, and return the identity that it has had since it was first opened."""
    semq_id, semq_db_id = store
    table = hub_store.c
    mine = (table.semq_id == semq_id) & (table.semq_db_id == semq_db_id)
    with connection.begin():
        values = {"semq_id": semq_id, "semq_db_id": semq_db_id, "store_uuid": store_uuid}
        connection.execute(insert(hub_store).values(**values).on_conflict_do_nothing())
        connection.execute(update(hub_store).where(mine, table.store_uuid.is_(None)).values(store_uuid=store_uuid))
        found: UUID = connection.execute(select(table.store_uuid).where(mine)).scalar_one()
    return found


def stores(connection: Connection) -> dict[StoreName, float]:
    """Return the weight of each store, in the order in which they were added."""
    query = select(hub_store).order_by(hub_store.c.added_at, hub_store.c.semq_id, hub_store.c.semq_db_id)
    return {(row.semq_id, row.semq_db_id): row.weight for row in connection.execute(query)}


def homes(connection: Connection) -> dict[str, StoreName]:
    """Return the home of each node that has one."""
    return {row.node: (row.semq_id, row.semq_db_id) for row in connection.execute(select(node_home))}


def add_homes(connection: Connection, drawn: Mapping[str, StoreName]) -> None:
    """Give nodes a home that have none."""
    rows = [{"node": node, "semq_id": store[0], "semq_db_id": store[1]} for node, store in drawn.items()]
    with connection.begin():
        connection.execute(insert(node_home).on_conflict_do_nothing(), rows)


def sign_of_life(connection: Connection, facts: Mapping[str, Any]) -> None:
    """Note that an instance is there; forget those that ended long ago."""
    until = func.now() + text(f"interval '{VALID_S} seconds'")
    table = hub_instance
    with connection.begin():
        connection.execute(
            insert(table)
            .values(**facts, until=until)
            .on_conflict_do_update(index_elements=["life"], set_={"until": until})
        )
        connection.execute(table.delete().where(table.c.until < func.now() - text(f"interval '{KEPT_S} seconds'")))


def end_of_life(connection: Connection, life: int) -> None:
    """Note that an instance has ended."""
    with connection.begin():
        connection.execute(update(hub_instance).where(hub_instance.c.life == life).values(until=func.now()))


def instances(connection: Connection) -> list[RunningInstance]:
    """Return the instances, those of the last day that have ended included, the newest first."""
    query = select(hub_instance, (hub_instance.c.until > func.now()).label("is_alive"))
    rows = connection.execute(query.order_by(hub_instance.c.started_at.desc()))
    return [RunningInstance(**row._mapping) for row in rows]
