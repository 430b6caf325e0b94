"""Which messages a name may mean: a short name, a full LK0, the number of a row, or an AppKey. Read-only.

Used by every operation that takes a name. A short name and an LK0 are found by indexes, in the queues by the record id,
in the ledger by its first line; the cost does not grow with the tables. Several messages may have one name: of those
with one AppKey people mean the newest, of everything else ``semq.service.message_names`` asks for a longer name.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select, text
from sqlalchemy.sql.elements import ColumnElement

from semq.store.rows import Event
from semq.store.tables import FIRST_HEARD, RECORD_ID, semq_ledger, tb_0030, tb_0031
from semq.store.views import submissions
from semq.store.views.messages import IN, OUT, inbound_facts, outbound_facts
from semq.umx_t.errors import BadLocator
from semq.umx_t.locator import parse_lk0
from semq.umx_t.short_name import ShortName, read_short_name
from semq.umx_t.status import Direction

ORIGINS_MAX = 10_000  # messages of one record id, of different origins, that are looked through
NUMBER_DIGITS_MAX = 18


def find_messages(connection: Connection, name: str, limit: int = 20) -> list[dict[str, Any]]:
    """The rows that a name may mean, the newest first."""
    found = [*_rows(connection, _conditions(connection, name), limit), *submissions.named(connection, name, limit)]
    rows = {(row["side"], row["id"]): row for row in found}
    return sorted(rows.values(), key=lambda row: row["at"], reverse=True)


def find_in_ledger(connection: Connection, name: str, limit: int = 20) -> list[str]:
    """The LK0 of messages that the ledger knows by a short name, an LK0 or an AppKey, also those that were cleaned long
    ago; the newest first."""
    c = semq_ledger.c
    found = connection.execute(select(c.lk0).where(c.lk0 == name).limit(1)).scalars().all()
    if not found:
        found = [*_called(connection, name), *_with_key(connection, name, limit)]
    return list(dict.fromkeys(found))


def _with_key(connection: Connection, name: str, limit: int) -> list[str]:
    """The LK0 of messages and refused submissions with this AppKey, the newest first: each has an index of its own."""
    c, at = semq_ledger.c, func.max(semq_ledger.c.at)
    found: dict[str, Any] = {}
    for begins in (c.event.in_([Event.ACCEPTED, Event.RECEIVED]), c.event == Event.REFUSED):
        newest = select(c.lk0, at).where(_has_key(name, c), begins).group_by(c.lk0).order_by(at.desc()).limit(limit)
        for lk0, moment in connection.execute(newest):
            found[lk0] = max(moment, found.get(lk0, moment))
    return sorted(found, key=lambda lk0: found[lk0], reverse=True)[:limit]


def _called(connection: Connection, name: str) -> list[str]:
    """The LK0 of messages with this short name that the ledger knows."""
    short = read_short_name(name)
    if short is None:
        return []
    line = text(f"SELECT DISTINCT lk0 FROM semq_ledger WHERE {RECORD_ID} = :number AND ({FIRST_HEARD}) LIMIT :most")
    lk0s = connection.execute(line, {"number": str(short.object_id), "most": ORIGINS_MAX}).scalars()
    return sorted(filter(short.fits, lk0s))


Conditions = tuple[ColumnElement[bool], ColumnElement[bool]]  # of tb_0031 and of tb_0030


def _conditions(connection: Connection, name: str) -> list[Conditions]:
    """What a row must fulfil; each alone has an index, but that of keys."""
    conditions = [(_has_key(name, OUT), _has_key(name, IN))]
    lk0s = [name] if _is_lk0(name) else _called(connection, name)
    conditions += map(_is_message, lk0s)
    short = read_short_name(name)
    if short is not None:  # of rows that are older than what the ledger has kept
        conditions += map(_is_message, _of_rows(connection, short))
    if name.isascii() and name.isdigit() and len(name) <= NUMBER_DIGITS_MAX:
        conditions.append((OUT.object_id == int(name), IN.bref == int(name)))
    return conditions


def _is_message(lk0: str) -> Conditions:
    number = int(lk0.rpartition(".")[2])
    own = and_(OUT.direction == Direction.OWN, OUT.object_id == number, OUT.lk0 == lk0)
    relayed = and_(OUT.direction == Direction.RELAYED, OUT.lk0 == lk0)
    return or_(own, relayed), and_(IN.src_object_id == number, IN.lk0 == lk0)


def _of_rows(connection: Connection, short: ShortName) -> list[str]:
    own = select(OUT.lk0).where(OUT.object_id == short.object_id)
    received = select(IN.lk0).where(IN.src_object_id == short.object_id).limit(ORIGINS_MAX)
    found = [*connection.execute(own).scalars(), *connection.execute(received).scalars()]
    return sorted(set(filter(short.fits, found)))


def _rows(connection: Connection, conditions: Sequence[Conditions], limit: int) -> list[dict[str, Any]]:
    rows = []
    for own, received in conditions:
        out = select(tb_0031).where(own).order_by(OUT.object_id.desc()).limit(limit)
        inbound = select(tb_0030).where(received).order_by(IN.bref.desc()).limit(limit)
        rows += [outbound_facts(row) for row in connection.execute(out)]
        rows += [inbound_facts(row) for row in connection.execute(inbound)]
    return rows


def _has_key(name: str, c: Any) -> ColumnElement[bool]:
    """An AppKey, whole or its last part."""
    parts = name.split("/", 3)
    by_key = and_(c.app_key == parts[-1], c.app_key != "")
    if len(parts) == 4:
        by_key = and_(by_key, c.app_domain == parts[0], c.app_type == parts[1], c.app_subtype == parts[2])
    return by_key


def _is_lk0(name: str) -> bool:
    try:
        parse_lk0(name)
    except BadLocator:
        return False
    return True
