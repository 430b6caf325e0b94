"""Certificates, tokens, stores of nodes and definitions: tokens are used once, revocations are permanent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection

from semq.store import identities as store
from semq.store.identities import Issued, NodeStore, Ticket
from semq.store.postgres.migration import engine_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CERTIFICATE = Issued("a1", "1.10008", "k1", b"der", NOW, NOW + 90 * 24 * HOUR)
TICKET = Ticket(b"h" * 32, "1.10008", ("a.example.org",), NOW, NOW + HOUR)


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with engine_of(database).connect() as connection:
        yield connection


def test_a_certificate_is_found_and_revoked_once(connection: Connection) -> None:
    store.add_certificate(connection, CERTIFICATE)
    store.add_certificate(connection, replace(CERTIFICATE, serial="a2", node="1.56001", issued_at=NOW + HOUR))
    assert [certificate.serial for certificate in store.certificates(connection)] == ["a2", "a1"]
    assert store.certificates(connection, "1.10008") == [CERTIFICATE]
    connection.rollback()
    (revoked,) = store.revoke(connection, ["a1", "zz"], NOW + HOUR, "key lost")
    assert revoked == replace(CERTIFICATE, revoked_at=NOW + HOUR, why="key lost")
    assert store.revoke(connection, ["a1"], NOW + 2 * HOUR, "again") == []
    assert store.revoked(connection, NOW) == {"a1"}
    assert store.revoked(connection, CERTIFICATE.not_after + HOUR) == set()


def test_a_token_serves_one_key(connection: Connection) -> None:
    store.add_token(connection, TICKET)
    assert store.token(connection, TICKET.hash) == TICKET
    assert store.token(connection, b"x" * 32) is None
    connection.rollback()
    assert store.use_token(connection, TICKET.hash, NOW, CERTIFICATE) == CERTIFICATE
    # The answer was lost: the same key, with another signature.
    assert store.use_token(connection, TICKET.hash, NOW, replace(CERTIFICATE, serial="a2")) == CERTIFICATE
    assert store.use_token(connection, TICKET.hash, NOW, replace(CERTIFICATE, serial="a3", key_id="k2")) is None
    assert [certificate.serial for certificate in store.certificates(connection)] == ["a1"]
    connection.rollback()
    used = store.token(connection, TICKET.hash)
    assert used is not None
    assert (used.used_at, used.serial) == (NOW, "a1")
    connection.rollback()
    store.revoke(connection, ["a1"], NOW, "")
    assert store.use_token(connection, TICKET.hash, NOW, replace(CERTIFICATE, serial="a2")) is None


def test_an_expired_or_unknown_token_issues_no_certificate(connection: Connection) -> None:
    store.add_token(connection, TICKET)
    assert store.use_token(connection, TICKET.hash, NOW + HOUR, CERTIFICATE) is None
    assert store.use_token(connection, b"x" * 32, NOW, CERTIFICATE) is None
    assert store.certificates(connection) == []


def test_one_token_gives_one_certificate_to_several_requests_at_once(connection: Connection, database: str) -> None:
    store.add_token(connection, TICKET)

    def use(number: int) -> Issued | None:
        with engine_of(database).connect() as own:
            certificate = replace(CERTIFICATE, serial=f"s{number}", key_id=f"k{number}")
            return store.use_token(own, TICKET.hash, NOW, certificate)

    with ThreadPoolExecutor() as pool:
        issued = [certificate for certificate in pool.map(use, range(4)) if certificate is not None]
    assert len(issued) == 1
    assert store.certificates(connection) == issued


def test_the_last_store_of_each_node_is_kept(connection: Connection) -> None:
    first, second = NodeStore("1.10008", "uuid", 1, NOW), NodeStore("1.10008", "uuid", 2, NOW + HOUR)
    store.note_store(connection, first)
    store.note_store(connection, second)
    assert store.stores(connection) == [second]
    connection.rollback()
    assert store.forget_store(connection, "1.10008")
    assert not store.forget_store(connection, "1.10008")


def test_definitions_are_added_only_after_the_latest_version(connection: Connection) -> None:
    assert store.latest_definition(connection) is None
    connection.rollback()
    assert store.add_definition(connection, "one", NOW, "first", 0) == 1
    assert store.add_definition(connection, "other", NOW, "too late", 0) is None
    assert store.add_definition(connection, "two", NOW, "", 1) == 2
    assert store.latest_definition(connection) == (2, "two")
