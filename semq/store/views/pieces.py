"""Documents in pieces (PROTOCOL.md section 24): pieces to transfer, received pieces, notices. Read-only.

Bodies are returned as stored; the caller decrypts them (``locked_bodies``).
"""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from sqlalchemy import Connection, exists, func, select, text
from sqlalchemy.sql.elements import ColumnElement

from semq.store.rows import ArrivedPiece, Event, Side
from semq.store.submission_tables import tb_0031_piece, tb_0031_submit, tb_0031_taken
from semq.store.tables import semq_ledger, tb_0030, tb_0030_body, tb_0031, tb_0031_body
from semq.store.views.submissions import IS_IN_PIECES
from semq.umx_t.pieces import NOTICE_NUMBER, PIECES_USER, GivenUpNotice
from semq.umx_t.status import AppStatus, Arrival

PIECES_OF = text("SELECT bref, number, size, digest FROM semq_pieces_of(:source, :document)")
P, S, TAKEN, OUT, IN = tb_0031_piece.c, tb_0031_submit.c, tb_0031_taken.c, tb_0031.c, tb_0030.c


class RecordedMessage(NamedTuple):
    """A message of tb_0030 with its stored envelope."""

    bref: int
    size: int
    envelope: bytes


def transfers(connection: Connection) -> list[tuple[int, bytes]]:
    """Return number and envelope of each submission that waits for its pieces."""
    waits = IS_IN_PIECES, S.envelope.is_not(None), S.reason_code.is_(None)
    query = select(S.number, S.envelope).where(*waits).order_by(S.number)
    return [(row.number, bytes(row.envelope)) for row in connection.execute(query)]


def given_up(connection: Connection, document: int) -> GivenUpNotice | None:
    """Return the notice about a document in pieces that was withdrawn or removed; None for every other document.

    ``document`` is the number of its submission, also in ``staged_numbers`` and ``staged``.
    """
    lk0 = connection.execute(select(TAKEN.lk0).where(TAKEN.number == document)).scalar()
    c = semq_ledger.c
    line = select(c.lk0, c.target, c.app_domain, c.app_type, c.app_subtype).where(
        c.lk0 == lk0, c.event == Event.REFUSED, c.side == Side.SENDER
    )
    row = connection.execute(line.limit(1)).one_or_none() if lk0 else None
    return None if row is None else GivenUpNotice(*row)


def under_way(connection: Connection) -> list[tuple[str, bytes]]:
    """Return LK0 and envelope of each piece and notice that has no outcome. Reads all of tb_0031."""
    query = select(OUT.lk0, tb_0031_body.c.envelope).join(tb_0031_body, tb_0031_body.c.object_id == OUT.object_id)
    rows = connection.execute(query.where(OUT.dest_user == PIECES_USER, OUT.outcome.is_(None)))
    return [(row.lk0, bytes(row.envelope)) for row in rows]


def staged_numbers(connection: Connection, document: int) -> list[int]:
    """Return the numbers of the pieces that are still to be sent, in order."""
    query = select(P.number).where(P.document == document, P.number > NOTICE_NUMBER).order_by(P.number)
    return list(connection.execute(query).scalars())


def staged(connection: Connection, document: int, number: int) -> bytes | None:
    """Return the stored payload of a piece that is still to be sent; None if there is none.

    Number NOTICE_NUMBER is the notice about a manifest that was refused or cancelled.
    """
    payload = connection.execute(select(P.payload).where(P.document == document, P.number == number)).scalar()
    return None if payload is None else bytes(payload)


def without_document(connection: Connection) -> list[tuple[int, int]]:
    """Return documents that have pieces but no waiting submission, each with its highest piece number."""
    waits = exists().where(S.number == P.document, S.not_before.is_not(None))
    query = select(P.document, func.max(P.number)).where(~waits).group_by(P.document)
    return [(document, last) for document, last in connection.execute(query)]


def pieces_of(connection: Connection, source: str, document: str) -> list[ArrivedPiece]:
    """Return the received pieces of a document, including repeated ones. ``document``: its LK0.

    Postgres reads their envelopes, which would need tens of megabytes in this process.
    """
    rows = connection.execute(PIECES_OF, {"source": source, "document": document})
    return [ArrivedPiece(row.bref, row.number, row.size, bytes(row.digest)) for row in rows]


def arrived(
    connection: Connection, source: str, after: int, limit: int, before_ms: int | None = None
) -> list[RecordedMessage]:
    """Return recorded pieces and notices from the institution ``source`` that are not done, in order of their brefs.

    ``after``: bref, exclusive. ``before_ms``: only those recorded before this time.
    """
    conditions = [
        IN.target_user == PIECES_USER, IN.source == source, IN.status == Arrival.RECV, IN.app_status != AppStatus.DONE,
        IN.bref > after,
    ]  # fmt: skip
    if before_ms is not None:
        conditions.append(IN.received_at < func.to_timestamp(before_ms / 1000))
    return _arrived(connection, conditions, limit)


def today(connection: Connection) -> date:
    """Return the date of the database in UTC."""
    found: date = connection.execute(text("SELECT (now() AT TIME ZONE 'UTC')::date")).scalar_one()
    return found


def small_messages(connection: Connection, source: str, size_max: int, after: int, limit: int) -> list[RecordedMessage]:
    """Return messages from the institution ``source`` that are neither refused nor done, of at most ``size_max`` bytes.

    They are in the order of their brefs, without pieces and notices. ``after``: bref, exclusive.
    """
    conditions = [
        IN.target_user != PIECES_USER, IN.source == source, IN.size <= size_max, IN.bref > after,
        IN.status == Arrival.RECV, IN.app_status != AppStatus.DONE,
    ]  # fmt: skip
    return _arrived(connection, conditions, limit)


def unfinished(connection: Connection, brefs: Sequence[int]) -> list[int]:
    """Return those of these brefs whose messages wait for the application or are parked."""
    query = select(IN.bref).where(IN.bref.in_(brefs), IN.app_status != AppStatus.DONE)
    return list(connection.execute(query).scalars())


def _arrived(connection: Connection, conditions: Sequence[ColumnElement[bool]], limit: int) -> list[RecordedMessage]:
    query = (
        select(IN.bref, IN.size, tb_0030_body.c.envelope)
        .join(tb_0030_body, tb_0030_body.c.bref == IN.bref)
        .where(*conditions)
        .order_by(IN.bref)
        .limit(limit)
    )
    return [RecordedMessage(row.bref, row.size, bytes(row.envelope)) for row in connection.execute(query)]


def bodies(connection: Connection, side: str, numbers: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
    """Return the stored envelopes and payloads of rows of one queue."""
    body = tb_0030_body.c if side == "inbound" else tb_0031_body.c
    number = body.bref if side == "inbound" else body.object_id
    rows = connection.execute(select(number, body.envelope, body.payload).where(number.in_(numbers)))
    return [(row[0], bytes(row.envelope), bytes(row.payload)) for row in rows]


def payload(connection: Connection, bref: int) -> bytes | None:
    """Return the stored payload of a received message; None if there is none."""
    stored = connection.execute(select(tb_0030_body.c.payload).where(tb_0030_body.c.bref == bref)).scalar()
    return None if stored is None else bytes(stored)
