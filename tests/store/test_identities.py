"""Certificates, tokens, stores of nodes and definitions: a token serves one key, and revocations are permanent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace
from sqlalchemy import Connection

from semq.store import identities
from semq.store.identities import IssuedCertificate, NodeStore, Ticket
from semq.store.postgres.migration import engine_of
from tests.waiting import until_sync

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CERTIFICATE = IssuedCertificate("a1", "1.10008", "k1", b"der", NOW, NOW + 90 * 24 * HOUR)
TICKET = Ticket(b"h" * 32, "1.10008", ("a.example.org",), NOW, NOW + HOUR)


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with engine_of(database).connect() as connection:
        yield connection


def test_a_certificate_is_found_and_revoked_once(connection: Connection) -> None:
    assert identities.add_certificate(connection, CERTIFICATE, "a0")
    other = replace(CERTIFICATE, serial="a2", node="1.56001", issued_at=NOW + HOUR)
    assert identities.add_certificate(connection, other, "a0")
    assert [certificate.serial for certificate in identities.certificates(connection)] == ["a2", "a1"]
    assert identities.certificates(connection, "1.10008") == [CERTIFICATE]
    connection.rollback()
    revoked = replace(CERTIFICATE, revoked_at=NOW + HOUR, why="key lost")
    assert identities.revoke(connection, ["a1", "zz"], NOW + HOUR, "key lost") == ({"a1"}, [revoked])
    assert identities.revoke(connection, ["a1"], NOW + 2 * HOUR, "again") == ({"a1"}, [])
    assert identities.revoke(connection, ["zz"], NOW, "") == (set(), [])
    assert identities.revoked_serials(connection, NOW) == {"a1"}
    assert identities.revoked_serials(connection, CERTIFICATE.not_after + HOUR) == set()


@pytest.mark.parametrize(
    "lock", ["LOCK TABLE node_certificate IN SHARE ROW EXCLUSIVE MODE", ""], ids=["revoke", "by SQL"]
)
def test_a_certificate_whose_revocation_is_in_progress_has_no_successor(
    connection: Connection, database: str, lock: str
) -> None:
    identities.add_certificate(connection, CERTIFICATE, "a0")
    successor = replace(CERTIFICATE, serial="a2", key_id="k2")
    with psycopg.connect(database) as revoking, ThreadPoolExecutor() as pool:
        if lock:
            revoking.execute(lock)
        revoking.execute("UPDATE node_certificate SET revoked_at = now() WHERE node = '1.10008'")
        adding = pool.submit(identities.add_certificate, connection, successor, "a1")
        until_waiting(database)
        revoking.commit()
        assert not adding.result()
    assert [certificate.serial for certificate in identities.certificates(connection)] == ["a1"]


def test_the_revocation_of_a_node_includes_a_certificate_that_is_being_added(
    connection: Connection, database: str
) -> None:
    identities.add_certificate(connection, CERTIFICATE, "a0")
    with psycopg.connect(database) as adding, ThreadPoolExecutor() as pool:
        columns = "node, key_id, der, issued_at, not_after"
        adding.execute(f"INSERT INTO node_certificate (serial, {columns}) SELECT 'a2', {columns} FROM node_certificate")
        revoking = pool.submit(identities.revoke, connection, ["1.10008"], NOW, "stolen")
        until_waiting(database)
        adding.commit()
        assert revoking.result().serials == {"a1", "a2"}
    assert identities.latest_ends(connection) == {}


def until_waiting(database: str) -> None:
    """Wait until a session waits for a lock."""
    with psycopg.connect(database, autocommit=True) as watching:
        waiting = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
        until_sync(lambda: (watching.execute(waiting).fetchone() or [False])[0])


def test_a_token_serves_one_key(connection: Connection) -> None:
    identities.add_token(connection, TICKET)
    assert identities.token(connection, TICKET.hash) == TICKET
    assert identities.token(connection, b"x" * 32) is None
    connection.rollback()
    assert identities.use_token(connection, TICKET.hash, NOW, CERTIFICATE) == CERTIFICATE
    # If the answer was lost, the node asks again for the same key.
    assert identities.use_token(connection, TICKET.hash, NOW, replace(CERTIFICATE, serial="a2")) == CERTIFICATE
    assert identities.use_token(connection, TICKET.hash, NOW, replace(CERTIFICATE, serial="a3", key_id="k2")) is None
    assert [certificate.serial for certificate in identities.certificates(connection)] == ["a1"]
    connection.rollback()
    used = identities.token(connection, TICKET.hash)
    assert used is not None
    assert (used.used_at, used.serial) == (NOW, "a1")
    connection.rollback()
    identities.revoke(connection, ["a1"], NOW, "")
    assert identities.use_token(connection, TICKET.hash, NOW, replace(CERTIFICATE, serial="a2")) is None


def test_an_expired_or_unknown_token_issues_no_certificate(connection: Connection) -> None:
    identities.add_token(connection, TICKET)
    assert identities.use_token(connection, TICKET.hash, NOW + HOUR, CERTIFICATE) is None
    assert identities.use_token(connection, b"x" * 32, NOW, CERTIFICATE) is None
    assert identities.certificates(connection) == []


def test_one_token_gives_one_certificate_to_several_requests_at_once(connection: Connection, database: str) -> None:
    identities.add_token(connection, TICKET)

    def use(number: int) -> IssuedCertificate | None:
        with engine_of(database).connect() as own:
            certificate = replace(CERTIFICATE, serial=f"s{number}", key_id=f"k{number}")
            return identities.use_token(own, TICKET.hash, NOW, certificate)

    with ThreadPoolExecutor() as pool:
        issued = [certificate for certificate in pool.map(use, range(4)) if certificate is not None]
    assert len(issued) == 1
    assert identities.certificates(connection) == issued


def test_the_last_store_of_each_node_is_kept(connection: Connection) -> None:
    first, second = NodeStore("1.10008", "uuid", 1, NOW), NodeStore("1.10008", "uuid", 2, NOW + HOUR)
    assert identities.note_store(connection, first) == first
    assert identities.note_store(connection, second) == second
    assert identities.note_store(connection, NodeStore("1.10008", "other", 1, NOW + HOUR)) == second
    assert identities.stores(connection) == [second] == [identities.store_of(connection, "1.10008")]
    connection.rollback()
    assert identities.forget_store(connection, "1.10008")
    assert not identities.forget_store(connection, "1.10008")
    assert identities.store_of(connection, "1.10008") is None


def test_definitions_are_added_only_after_the_latest_version(connection: Connection) -> None:
    assert identities.latest_definition(connection) is None
    connection.rollback()
    assert identities.add_definition(connection, "one", NOW, "first", 0) == 1
    assert identities.add_definition(connection, "other", NOW, "too late", 0) is None
    assert identities.add_definition(connection, "two", NOW, "", 1) == 2
    assert identities.latest_definition(connection) == (2, "two")
