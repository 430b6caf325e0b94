"""Rows of users, their sessions, sign-in links and tokens of the HTTP API."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection

from semq.store import accounts
from semq.store.accounts import Account, AccountSession, Token
from semq.store.postgres.migration import engine_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with engine_of(database).connect() as connection:
        yield connection


ANN = Account("ann", "scrypt$x$y", ("admin",), NOW, "link")


def session_of(account: str, hash_: bytes = b"h") -> AccountSession:
    return AccountSession(hash_, account, (), NOW, NOW, NOW + HOUR)


def test_an_account_is_added_once(connection: Connection) -> None:
    assert not accounts.has_enabled_account(connection)
    connection.rollback()
    assert accounts.add_account(connection, ANN)
    assert not accounts.add_account(connection, replace(ANN, roles=("viewer",)))
    assert accounts.accounts(connection) == [ANN]
    assert accounts.account(connection, "bob") is None


def test_a_session_has_the_present_roles_of_its_account(connection: Connection) -> None:
    accounts.add_account(connection, ANN)
    accounts.add_session(connection, session_of("ann"), None)
    session = accounts.session(connection, b"h", NOW, NOW - HOUR, [])
    assert session is not None
    assert session.roles == ("admin",)
    connection.rollback()
    assert accounts.set_roles(connection, "ann", ["viewer"])
    session = accounts.session(connection, b"h", NOW, NOW - HOUR, [])
    assert session is not None
    assert session.roles == ("viewer",)


@pytest.mark.parametrize("end", ["time", "idle", "disabled", "password", "sign-out"])
def test_a_session_ends_by_time_disabling_password_change_or_sign_out(connection: Connection, end: str) -> None:
    accounts.add_account(connection, ANN)
    accounts.add_session(connection, session_of("ann"), None)
    now, idle_since = NOW, NOW - HOUR
    match end:
        case "time":
            now = NOW + HOUR
        case "idle":
            idle_since = NOW
        case "disabled":
            assert accounts.disable(connection, "ann", NOW)
        case "password":
            assert accounts.set_password(connection, "ann", "scrypt$a$b", None)
        case _:
            accounts.end_session(connection, b"h")
    assert accounts.session(connection, b"h", now, idle_since, []) is None


def test_a_new_password_keeps_the_session_that_set_it(connection: Connection) -> None:
    accounts.add_account(connection, ANN)
    for hash_ in (b"1", b"2"):
        accounts.add_session(connection, session_of("ann", hash_), None)
    assert accounts.set_password(connection, "ann", "scrypt$a$b", b"1")
    assert accounts.session(connection, b"1", NOW, NOW - HOUR, []) is not None
    assert accounts.session(connection, b"2", NOW, NOW - HOUR, []) is None


def test_a_session_without_an_account_needs_roles_of_its_own(connection: Connection) -> None:
    accounts.add_session(connection, session_of("first", b"1"), ["admin"])
    accounts.add_session(connection, session_of("nobody", b"2"), None)
    session = accounts.session(connection, b"1", NOW, NOW - HOUR, [])
    assert session is not None
    assert session.roles == ("admin",)
    assert accounts.session(connection, b"2", NOW, NOW - HOUR, []) is None


def test_sessions_of_users_of_the_node_end_when_they_no_longer_administer_it(connection: Connection) -> None:
    accounts.add_account(connection, replace(ANN, name="ops", password=None))
    accounts.add_account(connection, ANN)
    for name, hash_ in (("ops", b"1"), ("ann", b"2")):
        accounts.add_session(connection, session_of(name, hash_), None)

    def are_open(admins: list[str]) -> list[bool]:
        is_open = [accounts.session(connection, hash_, NOW, NOW - HOUR, admins) is not None for hash_ in (b"1", b"2")]
        connection.rollback()
        return is_open

    assert are_open(["ops"]) == [True, True]
    assert are_open(["root"]) == [False, True]
    accounts.end_former_sessions(connection, ["ops"])
    assert are_open(["ops"]) == [True, True]
    accounts.end_former_sessions(connection, ["root"])
    assert are_open(["ops"]) == [False, True]  # also if the user is added again


def test_a_link_is_used_once_and_replaced_by_the_next(connection: Connection) -> None:
    assert accounts.store_first_link(connection, b"1", NOW, NOW + HOUR, always=False)
    assert accounts.store_first_link(connection, b"2", NOW, NOW + HOUR, always=False)
    assert not accounts.use_link(connection, b"1", NOW)
    assert accounts.use_link(connection, b"2", NOW)
    assert not accounts.use_link(connection, b"2", NOW)


def test_a_sign_in_link_cannot_be_used_after_its_time(connection: Connection) -> None:
    assert accounts.store_first_link(connection, b"1", NOW, NOW + HOUR, always=False)
    assert not accounts.use_link(connection, b"1", NOW + HOUR)


def test_if_an_account_is_enabled_a_link_is_stored_only_with_always(connection: Connection) -> None:
    accounts.add_account(connection, ANN)
    assert not accounts.store_first_link(connection, b"1", NOW, NOW + HOUR, always=False)
    assert accounts.store_first_link(connection, b"1", NOW, NOW + HOUR, always=True)


def test_tokens_are_revoked_permanently(connection: Connection) -> None:
    token = Token("t1", b"hash", "erp", ("submit",), NOW, "ann", expires_at=NOW + HOUR)
    accounts.add_token(connection, token)
    assert accounts.token(connection, b"hash") == token
    assert token.is_valid(NOW)
    assert not token.is_valid(NOW + HOUR)
    connection.rollback()
    revoked = accounts.revoke_token(connection, "t1", "ann", NOW)
    assert revoked is not None
    assert not revoked.is_valid(NOW)
    revoked_again = accounts.revoke_token(connection, "t1", "bob", NOW + HOUR)
    assert revoked_again == revoked
    assert accounts.revoke_token(connection, "t2", "ann", NOW) is None
    assert accounts.tokens(connection, 10) == [revoked]
