"""Lines of the audit log: added in order, shown in pages, never changed."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from semq.store import audit
from semq.store.audit import AuditFilter, Line
from semq.store.postgres.migration import engine_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with engine_of(database).connect() as connection:
        yield connection


def line(number: int, who: str = "ann", **fields: object) -> Line:
    return Line(NOW + number * DAY, who, "session", "127.0.0.1", f"msg.{number}", **fields)  # type: ignore[arg-type]


def test_pages_of_lines_are_complete_and_the_newest_line_is_first(connection: Connection) -> None:
    numbers = audit.add(connection, [line(number, arguments={"id": number}) for number in range(5)])
    assert numbers == sorted(numbers)
    first = audit.lines(connection, AuditFilter(limit=3))
    second = audit.lines(connection, AuditFilter(limit=3, before=first[-1]["number"]))
    assert [row["act"] for row in first + second] == [f"msg.{number}" for number in (4, 3, 2, 1, 0)]
    assert second[-1]["arguments"] == {"id": 0}


def test_lines_of_the_audit_log_are_selected_by_each_field(connection: Connection) -> None:
    audit.add(connection, [line(0), line(1, "bob"), line(2, outcome="refused"), line(3, read_payload=True)])
    selections = [
        (AuditFilter(who="bob"), ["msg.1"]),
        (AuditFilter(act="msg.2"), ["msg.2"]),
        (AuditFilter(act="msg_"), []),
        (AuditFilter(outcome="refused"), ["msg.2"]),
        (AuditFilter(payloads=True), ["msg.3"]),
        (AuditFilter(since=NOW + 2 * DAY), ["msg.3", "msg.2"]),
        (AuditFilter(until=NOW + DAY), ["msg.0"]),
    ]
    for wanted, acts in selections:
        assert [row["act"] for row in audit.lines(connection, wanted)] == acts, wanted


@pytest.mark.parametrize(
    "statement",
    ["UPDATE web_audit SET who = 'eve'", "DELETE FROM web_audit", "TRUNCATE web_audit"],
)
def test_lines_cannot_be_changed_or_deleted(connection: Connection, statement: str) -> None:
    audit.add(connection, [line(0)])
    with pytest.raises(DBAPIError, match="only added"):
        connection.execute(text(statement))
    connection.rollback()
    assert len(audit.lines(connection, AuditFilter())) == 1


def test_an_announced_act_is_open_until_a_line_reports_its_outcome(connection: Connection) -> None:
    (asked,) = audit.add(connection, [replace(line(0), outcome="asked")])
    assert audit.is_open(connection, asked, "msg.0")
    assert not audit.is_open(connection, asked, "msg.1")
    assert not audit.is_open(connection, asked + 1, "msg.0")
    audit.add(connection, [replace(line(0), asked=asked)])
    assert not audit.is_open(connection, asked, "msg.0")
