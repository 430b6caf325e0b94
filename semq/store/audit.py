"""The audit log of the web process and of acts by AMQP: one line before an act and one after it, or one line for both.

A trigger refuses every change of a line, and every deletion except by the housekeeping.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from sqlalchemy import Connection, insert, select
from sqlalchemy.sql.elements import ColumnElement

from semq.store.web_tables import web_audit

AUDIT = web_audit.c


class Line(Struct, frozen=True):
    """One line of the log, with the columns of ``web_audit``."""

    at: datetime
    who: str  #: name of the user or of the token
    via: str  #: means of sign-in: session, link, token, password, certificate, amqp
    peer: str  #: the network address of the user
    act: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    outcome: str = "done"  #: asked, done, refused, failed
    detail: str = ""
    asked: int | None = None  #: number of the line that was written before the act
    read_payload: bool = False  #: the act showed the content of a document


class AuditFilter(Struct, frozen=True):
    """The selection of lines to show; a condition that is None matches every line."""

    who: str | None = None
    act: str | None = None  #: beginning of the name of the act
    outcome: str | None = None
    since: datetime | None = None  #: inclusive
    until: datetime | None = None  #: exclusive
    payloads: bool = False  #: only lines with ``read_payload``
    before: int | None = None  #: only lines with lower numbers
    limit: int = 50


def add(connection: Connection, lines: Sequence[Line]) -> list[int]:
    """Add lines in one transaction; return their numbers in the same order."""
    values = [{name: getattr(line, name) for name in Line.__struct_fields__} for line in lines]
    with connection.begin():
        statement = insert(web_audit).returning(AUDIT.number, sort_by_parameter_order=True)
        return list(connection.execute(statement, values).scalars())


def is_open(connection: Connection, number: int, act: str) -> bool:
    """Return whether the line ``number`` announces the act ``act``, and no later line reports its outcome."""
    later = select(AUDIT.number).where(AUDIT.asked == number, AUDIT.number > number)
    asked = select(AUDIT.number).where(AUDIT.number == number, AUDIT.act == act, AUDIT.outcome == "asked")
    with connection.begin():
        return connection.execute(asked.where(~later.exists())).first() is not None


def lines(connection: Connection, wanted: AuditFilter) -> list[dict[str, Any]]:
    """Return the selected lines, the newest first."""
    query = select(web_audit).where(*_conditions(wanted)).order_by(AUDIT.number.desc()).limit(wanted.limit)
    return [dict(row._mapping) for row in connection.execute(query)]


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    conditions: list[tuple[object, Callable[[object], ColumnElement[bool]]]] = [
        (wanted.who, lambda who: AUDIT.who == who),
        (wanted.act, lambda act: AUDIT.act.startswith(act, autoescape=True)),
        (wanted.outcome, lambda outcome: AUDIT.outcome == outcome),
        (wanted.since, lambda since: AUDIT.at >= since),
        (wanted.until, lambda until: AUDIT.at < until),
        (wanted.payloads or None, lambda _: AUDIT.read_payload),
        (wanted.before, lambda before: AUDIT.number < before),
    ]
    return [condition(value) for value, condition in conditions if value is not None]
