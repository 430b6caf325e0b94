"""The hub's tables: certificates, enrolment tokens and stores of nodes, definitions, and lost stores of the hub.

Functions for ``PostgresStore.execute``. Each change is a transaction of its own.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from semq.store.rows import RetiredStore
from semq.store.tables import definition, node_certificate, node_life, node_token, semq_retired_store

REVOKED, DEFINED = "semq_revoked", "semq_defined"  # channels of NOTIFY
CERTIFICATE, TOKEN, STORE, DEFINITION = node_certificate.c, node_token.c, node_life.c, definition.c


class IssuedCertificate(Struct, frozen=True):
    """A certificate of a node."""

    serial: str
    node: str
    key_id: str
    der: bytes
    issued_at: datetime
    not_after: datetime
    revoked_at: datetime | None = None
    why: str = ""


class Revocation(NamedTuple):
    """The result of ``revoke``."""

    serials: set[str]  #: serial numbers of all certificates that ``which`` selects
    revoked: list[IssuedCertificate]  #: those that were not revoked before


class Ticket(Struct, frozen=True):
    """An enrolment token, identified by its hash."""

    hash: bytes
    node: str
    host_names: tuple[str, ...]
    made_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    serial: str | None = None  #: serial number of the certificate issued for the token


class NodeStore(Struct, frozen=True):
    """The store that a node used at its last login."""

    node: str
    store_uuid: str
    boot: int  #: number of openings
    seen_at: datetime


# --- certificates


def certificates(connection: Connection, node: str | None = None) -> list[IssuedCertificate]:
    """Return the certificates of one node, or of all nodes (None), the newest first."""
    query = select(node_certificate).order_by(CERTIFICATE.issued_at.desc(), CERTIFICATE.serial)
    return [_issued(row) for row in connection.execute(query.where(CERTIFICATE.node == node) if node else query)]


def latest_ends(connection: Connection) -> dict[str, datetime]:
    """Return for each node the latest time at which one of its certificates ends, without revoked certificates."""
    last = select(CERTIFICATE.node, func.max(CERTIFICATE.not_after)).where(CERTIFICATE.revoked_at.is_(None))
    return {row[0]: row[1] for row in connection.execute(last.group_by(CERTIFICATE.node))}


def is_revoked_key(connection: Connection, key_id: str) -> bool:
    """Return whether any certificate of a key has been revoked."""
    return bool(connection.scalar(select(_is_revoked(key_id))))


def _is_revoked(key_id: str) -> ColumnElement[bool]:
    return exists().where(CERTIFICATE.key_id == key_id, CERTIFICATE.revoked_at.is_not(None))


def add_certificate(connection: Connection, issued: IssuedCertificate, presented: str) -> bool:
    """Add a certificate for the owner of the certificate with the serial number ``presented``.

    Return False instead if that certificate or the key of the new one was revoked.
    """
    with connection.begin():
        _hold_off_revocations(connection)
        # FOR SHARE waits for a revocation by SQL that is in progress.
        own = select(CERTIFICATE.revoked_at).where(CERTIFICATE.serial == presented).with_for_update(read=True)
        if connection.scalar(own) is not None or is_revoked_key(connection, issued.key_id):
            return False
        connection.execute(insert(node_certificate).values(**_values(issued)).on_conflict_do_nothing())
    return True


def _hold_off_revocations(connection: Connection) -> None:
    """Wait for the end of any ``revoke``, and let later ones wait for the end of this transaction.

    So a certificate that is added while a revocation runs is either refused or revoked with the others.
    """
    connection.execute(text("LOCK TABLE node_certificate IN ROW EXCLUSIVE MODE"))


def revoke(connection: Connection, which: Collection[str], at: datetime, why: str) -> Revocation:
    """Revoke certificates permanently. ``which``: serial numbers and nodes."""
    meant = or_(CERTIFICATE.serial.in_(which), CERTIFICATE.node.in_(which))
    with connection.begin():
        connection.execute(text("LOCK TABLE node_certificate IN SHARE ROW EXCLUSIVE MODE"))  # no certificate is added
        serials = set(connection.execute(select(CERTIFICATE.serial).where(meant)).scalars())
        rows = connection.execute(
            update(node_certificate)
            .where(meant, CERTIFICATE.revoked_at.is_(None))
            .values(revoked_at=at, why=why)
            .returning(node_certificate)
        )
        connection.execute(select(func.pg_notify(REVOKED, "")))
        return Revocation(serials, [_issued(row) for row in rows])


def revoked_serials(connection: Connection, since: datetime) -> set[str]:
    """Return the serial numbers of revoked certificates that end at ``since`` or later."""
    query = select(CERTIFICATE.serial).where(CERTIFICATE.revoked_at.is_not(None), CERTIFICATE.not_after >= since)
    return set(connection.execute(query).scalars())


# --- tokens


def add_token(connection: Connection, ticket: Ticket) -> None:
    """Store the hash of a token."""
    with connection.begin():
        values = {name: getattr(ticket, name) for name in Ticket.__struct_fields__} | {
            "host_names": list(ticket.host_names)
        }
        connection.execute(insert(node_token).values(**values))


def token(connection: Connection, hash_: bytes) -> Ticket | None:
    """Return the token with this hash, also a used or expired one, or None."""
    row = connection.execute(select(node_token).where(TOKEN.hash == hash_)).one_or_none()
    return None if row is None else _ticket(row)


def tokens(connection: Connection, limit: int = 200) -> list[Ticket]:
    """Return the newest tokens, also used and expired ones, the newest first."""
    rows = connection.execute(select(node_token).order_by(TOKEN.made_at.desc()).limit(limit))
    return [_ticket(row) for row in rows]


def use_token(
    connection: Connection, hash_: bytes, at: datetime, issued: IssuedCertificate
) -> IssuedCertificate | None:
    """Use up a token, and add and return the certificate ``issued``.

    If the token was used for this key before, return the earlier certificate: the first answer may have been lost.
    None: the token is unknown, has expired, or was used for another key; or the key was revoked.
    """
    with connection.begin():
        _hold_off_revocations(connection)
        used = connection.execute(
            update(node_token)
            .where(TOKEN.hash == hash_, TOKEN.used_at.is_(None), TOKEN.expires_at > at, ~_is_revoked(issued.key_id))
            .values(used_at=at, serial=issued.serial)
        )
        if used.rowcount == 1:
            connection.execute(insert(node_certificate).values(**_values(issued)))
            return issued
        before = connection.execute(
            select(node_certificate)
            .join(node_token, TOKEN.serial == CERTIFICATE.serial)
            .where(TOKEN.hash == hash_, TOKEN.expires_at > at, CERTIFICATE.key_id == issued.key_id)
            .where(CERTIFICATE.revoked_at.is_(None))
        ).one_or_none()
        return None if before is None else _issued(before)


# --- stores of nodes


def stores(connection: Connection) -> list[NodeStore]:
    """Return the store of every node that has logged in."""
    return [NodeStore(*row) for row in connection.execute(select(node_life))]


def store_of(connection: Connection, node: str) -> NodeStore | None:
    """Return the recorded store of a node."""
    row = connection.execute(select(node_life).where(STORE.node == node)).one_or_none()
    return None if row is None else NodeStore(*row)


def note_store(connection: Connection, store: NodeStore) -> NodeStore:
    """Record the store of a node, and return it. If another one is recorded, change nothing and return that one."""
    values = {name: getattr(store, name) for name in NodeStore.__struct_fields__}
    with connection.begin():
        new = insert(node_life).values(**values)
        is_same = STORE.store_uuid == store.store_uuid
        connection.execute(new.on_conflict_do_update(index_elements=["node"], set_=values, where=is_same))
        return NodeStore(*connection.execute(select(node_life).where(STORE.node == store.node)).one())


def forget_store(connection: Connection, node: str) -> bool:
    """Allow a node to use another store. Return whether a store was recorded."""
    with connection.begin():
        return connection.execute(node_life.delete().where(STORE.node == node)).rowcount == 1


# --- definitions


def latest_definition(connection: Connection) -> tuple[int, str] | None:
    """Return version and file of the definitions in force, or None."""
    row = connection.execute(
        select(DEFINITION.version, DEFINITION.document).order_by(DEFINITION.version.desc()).limit(1)
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def add_definition(connection: Connection, document: str, at: datetime, why: str, expected: int) -> int | None:
    """Put a file of definitions in force as the version after ``expected``, and return the new version.

    Return None, and change nothing, if ``expected`` is not the latest version.
    """
    with connection.begin():
        newest = connection.execute(select(func.coalesce(func.max(DEFINITION.version), 0))).scalar_one()
        if newest != expected:
            return None
        values = {"version": expected + 1, "document": document, "at": at, "why": why}
        added = insert(definition).values(**values).on_conflict_do_nothing().returning(DEFINITION.version)
        connection.execute(select(func.pg_notify(DEFINED, "")))
        return connection.execute(added).scalar_one_or_none()


def _values(issued: IssuedCertificate) -> dict[str, object]:
    return {name: getattr(issued, name) for name in IssuedCertificate.__struct_fields__}


def _issued(row: Row[object]) -> IssuedCertificate:
    return IssuedCertificate(**row._mapping)


def _ticket(row: Row[object]) -> Ticket:
    values = dict(row._mapping)
    return Ticket(**values | {"host_names": tuple(values["host_names"])})


# --- the hub's stores


def retired_stores(connection: Connection) -> list[tuple[RetiredStore, datetime]]:
    """Return the lost stores of the hub, and when an operator declared them lost."""
    rows = connection.execute(select(semq_retired_store).order_by(semq_retired_store.c.at))
    return [(RetiredStore(row.semq_id, row.semq_db_id, row.retired_by, row.why), row.at) for row in rows]
