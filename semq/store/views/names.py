"""Search for the messages that a name may denote: short name, LK0, ``sql-NUMBER``, row number, or AppKey. Read-only.

A submission that was refused and tried again keeps its old names, which denote the message that it became. Several
messages may have one name: an AppKey then denotes the newest message; a short name or a number is refused by
``semq.service.message_names``.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, func, or_, select, text
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessageRow
from semq.store.rows import Event
from semq.store.tables import FIRST_LINE, RECORD_ID, REFUSAL, Columns, semq_ledger, tb_0030, tb_0031
from semq.store.views import submissions
from semq.store.views.messages import IN, OUT, inbound_facts, outbound_facts
from semq.umx_t.errors import BadLocator
from semq.umx_t.locator import parse_lk0
from semq.umx_t.short_name import ShortName, read_short_name
from semq.umx_t.status import Direction

ORIGINS_MAX = 10_000  # messages with the same record id that are examined
OLDEST_MAX = 10_000  # oldest rows of a queue, whose ledger lines may have been deleted
NUMBER_DIGITS_MAX = 18


def find_messages(connection: Connection, name: str, limit: int = 20) -> list[MessageRow]:
    """Return the rows that a name may denote, the newest first."""
    lk0s = known_as(connection, name, limit)
    conditions = [_conditions_of(lk0s)] if lk0s else []
    if name.isascii() and name.isdigit() and len(name) <= NUMBER_DIGITS_MAX:
        conditions.append((OUT.object_id == int(name), IN.bref == int(name)))
    rows = [*_rows(connection, conditions, limit), *submissions.find_submissions(connection, name, lk0s, limit)]
    if not (rows or lk0s) and is_key(name):
        rows = _oldest_with_key(connection, name, limit)
    by_id = {(row["side"], row["id"]): row for row in rows}
    return sorted(by_id.values(), key=lambda row: row["at"], reverse=True)


def find_in_ledger(connection: Connection, name: str, limit: int = 20) -> list[str]:
    """Return the LK0s that a name may denote (``known_as``) and that the ledger contains."""
    lk0s = known_as(connection, name, limit)
    c = semq_ledger.c
    in_ledger = set(connection.execute(select(c.lk0).where(c.lk0.in_(lk0s)).distinct()).scalars()) if lk0s else set()
    return [lk0 for lk0 in lk0s if lk0 in in_ledger]


def continued_as(connection: Connection, lk0: str) -> str:
    """Return the LK0 of the message that replaced ``lk0``, or that one's replacement; ``lk0`` if there is none."""
    return str(connection.execute(select(func.semq_continued_as(lk0))).scalar_one())


def is_key(name: str) -> bool:
    """Return whether a name may be an AppKey: it is neither an LK0 nor the number of a submission."""
    return not _is_lk0(name) and submissions.number_of(name) is None


def known_as(connection: Connection, name: str, limit: int) -> list[str]:
    """Return the LK0s that a name may denote: those with this short name, then those with this key, the newest first.

    A number also denotes refused submissions with this record id.
    """
    number = submissions.number_of(name)
    if number is not None:
        return submissions.lk0s_of_number(connection, number)
    if _is_lk0(name):
        found = [name]
    else:
        short = read_short_name(name)
        found = [*_with_short_name(connection, short)] if short is not None else []
        found += _with_key(connection, name, limit)
        found += _refused(connection, name) if name.isdecimal() else []
    return list(dict.fromkeys(lk0 for earlier in found for lk0 in submissions.present_lk0s(connection, earlier)))


def _with_key(connection: Connection, name: str, limit: int) -> list[str]:
    """Return the LK0s of messages, refused submissions and a hub's copies with this AppKey; the newest first."""
    c, at = semq_ledger.c, func.max(semq_ledger.c.at)
    newest_at: dict[str, datetime] = {}
    for is_event in (c.event.in_([Event.ACCEPTED, Event.RECEIVED]), c.event == Event.REFUSED):
        newest = select(c.lk0, at).where(_has_key(name, c), is_event).group_by(c.lk0).order_by(at.desc()).limit(limit)
        for lk0, moment in connection.execute(newest):
            newest_at[lk0] = max(moment, newest_at.get(lk0, moment))
    held = select(OUT.lk0, OUT.accepted_at).where(_has_key(name, OUT), OUT.direction == Direction.RELAYED)
    for lk0, moment in connection.execute(held.order_by(OUT.accepted_at.desc()).limit(limit)):
        newest_at[lk0] = max(moment, newest_at.get(lk0, moment))
    return sorted(newest_at, key=lambda lk0: newest_at[lk0], reverse=True)[:limit]


def _with_short_name(connection: Connection, short: ShortName) -> list[str]:
    """Return the LK0s with this short name: from the ledger, the queues, and scheduled submissions."""
    parameters = {"number": str(short.object_id), "most": ORIGINS_MAX}
    lk0s: set[str] = set()
    for lines in (FIRST_LINE, REFUSAL):
        line = text(f"SELECT DISTINCT lk0 FROM semq_ledger WHERE {RECORD_ID} = :number AND ({lines}) LIMIT :most")
        lk0s.update(connection.execute(line, parameters).scalars())
    own = select(OUT.lk0).where(OUT.object_id == short.object_id)
    received = select(IN.lk0).where(IN.src_object_id == short.object_id).limit(ORIGINS_MAX)
    lk0s.update(connection.execute(own).scalars(), connection.execute(received).scalars())
    lk0s.update(submissions.scheduled_as(connection, short.object_id))
    return sorted(filter(short.fits, lk0s))


def _refused(connection: Connection, number: str) -> list[str]:
    """Return the LK0s of refused submissions with this record id."""
    line = text(f"SELECT DISTINCT lk0 FROM semq_ledger WHERE {RECORD_ID} = :number AND {REFUSAL} LIMIT :most")
    return list(connection.execute(line, {"number": number, "most": ORIGINS_MAX}).scalars())


Conditions = tuple[ColumnElement[bool], ColumnElement[bool]]  # for tb_0031 and for tb_0030


def _conditions_of(lk0s: Sequence[str]) -> Conditions:
    """Return conditions for the rows of these messages that use indexes: record ids, and LK0s of a hub's copies."""
    numbers = [int(lk0.rpartition(".")[2]) for lk0 in lk0s]
    own = and_(OUT.direction == Direction.OWN, OUT.object_id.in_(numbers), OUT.lk0.in_(lk0s))
    relayed = and_(OUT.direction == Direction.RELAYED, OUT.lk0.in_(lk0s))
    return or_(own, relayed), and_(IN.src_object_id.in_(numbers), IN.lk0.in_(lk0s))


def _rows(connection: Connection, conditions: Iterable[Conditions], limit: int) -> list[MessageRow]:
    rows = []
    for own, received in conditions:
        out = select(tb_0031).where(own).order_by(OUT.object_id.desc()).limit(limit)
        inbound = select(tb_0030).where(received).order_by(IN.bref.desc()).limit(limit)
        rows += [outbound_facts(row) for row in connection.execute(out)]
        rows += [inbound_facts(row) for row in connection.execute(inbound)]
    return rows


def _oldest_with_key(connection: Connection, name: str, limit: int) -> list[MessageRow]:
    """Return rows with a key from the oldest rows of each queue, whose first ledger lines may have been deleted."""
    out = select(tb_0031).order_by(OUT.object_id).limit(OLDEST_MAX).subquery()
    inbound = select(tb_0030).order_by(IN.bref).limit(OLDEST_MAX).subquery()
    sent = connection.execute(select(out).where(_has_key(name, out.c)).limit(limit))
    received = connection.execute(select(inbound).where(_has_key(name, inbound.c)).limit(limit))
    return [*map(outbound_facts, sent), *map(inbound_facts, received)]


def _has_key(name: str, c: Columns) -> ColumnElement[bool]:
    """Return a condition for an AppKey. ``name`` is the complete AppKey or its last part, which may contain slashes."""
    by_key, parts = c.app_key == name, name.split("/", 3)
    if len(parts) == 4:
        first = and_(c.app_domain == parts[0], c.app_type == parts[1], c.app_subtype == parts[2])
        by_key = or_(by_key, and_(first, c.app_key == parts[3]))
    return and_(by_key, c.app_key != "")


def _is_lk0(name: str) -> bool:
    try:
        parse_lk0(name)
    except BadLocator:
        return False
    return True
