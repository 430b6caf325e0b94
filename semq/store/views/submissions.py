"""View of submissions that the node has not accepted: refused, waiting, scheduled (@NotBefore), or documents whose
pieces are on their way (PROTOCOL.md section 24). Read-only.

The results are like outbound rows in ``messages``, with ``submission``, the number in tb_0031_submit. The name is the
LK0 of the refusal or of the scheduled document, otherwise ``sql-NUMBER``.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

from sqlalchemy import BigInteger, Connection, and_, case, false, func, literal_column, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessageRow, TracedLine
from semq.moments import moment_text
from semq.store.submission_tables import (
    LAST_OF_KEY,
    tb_0031_piece,
    tb_0031_renamed,
    tb_0031_submit,
    tb_0031_taken,
    tb_0031_wait,
)
from semq.store.tables import TableRow
from semq.store.views.selection import MessageFilter
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import AFTER_PIECES_MS
from semq.umx_t.short_name import short_name
from semq.umx_t.status import Direction, Outcome, SaveFwd

C, W, TAKEN, RENAMED = tb_0031_submit.c, tb_0031_wait.c, tb_0031_taken.c, tb_0031_renamed.c
PREFIX = "sql-"
WAITS_BEHIND = "SEMQ-1229"  # ``semq.engine.errors.WaitsBehind``
REJECTED = Outcome.REJECTED.name
REFUSED, WAITS, SUBMITTED, SCHEDULED, IN_PIECES = "REFUSED", "WAITS", "SUBMITTED", "SCHEDULED", "IN_PIECES"
OPEN = (WAITS, SUBMITTED, SCHEDULED, IN_PIECES)
WORDS = {  # of the lines of ``events``
    SUBMITTED: "handed over", IN_PIECES: "its pieces are sent first", SCHEDULED: "waits for its time",
    WAITS: "cannot be accepted yet",
}  # fmt: skip
IS_REFUSED = C.reason_code.is_not(None)
IS_SCHEDULED = C.not_before.is_not(None)  # also documents in pieces
IS_IN_PIECES = C.not_before == func.to_timestamp(AFTER_PIECES_MS // 1000)
IS_NAMED = C.envelope.is_not(None)  # scheduled under an LK0
# Code of the reason that ``_reason`` returns.
code_column = func.coalesce(
    C.reason_code, C.wait_code, case((W.number.is_not(None), WAITS_BEHIND), else_=W.reason_code)
)
_EXPIRY = func.coalesce(  # as digits; bytes that are no envelope have none
    func.substring(func.encode(C.envelope, "escape"), '"expires_at":([0-9]{1,15})'),
    func.substring(C.headers["@ExpiresAt"].astext, "^[0-9]{1,15}$"),
)
_IS_DUE = and_(~IS_REFUSED, ~IS_SCHEDULED)
# State, as ``_state`` returns it, or outcome | condition
_STATES: dict[str, ColumnElement[bool]] = {
    REJECTED: IS_REFUSED,
    REFUSED: IS_REFUSED,
    IN_PIECES: and_(~IS_REFUSED, IS_IN_PIECES),
    SCHEDULED: and_(~IS_REFUSED, IS_SCHEDULED, ~IS_IN_PIECES),
    WAITS: and_(_IS_DUE, code_column.is_not(None)),
    SUBMITTED: and_(_IS_DUE, code_column.is_(None)),
}
key_column: ColumnElement[str] = literal_column(LAST_OF_KEY.replace("app_key", "tb_0031_submit.app_key"))


def number_of(name: str) -> int | None:
    """Return the number in ``sql-NUMBER``; None for other names."""
    digits = name.removeprefix(PREFIX)
    is_number = name.startswith(PREFIX) and digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if is_number else None


def find_submissions(connection: Connection, name: str, lk0s: Sequence[str], limit: int) -> list[MessageRow]:
    """Return the submissions that a name may denote, newest first. ``lk0s``: the LK0s that it may denote
    (``names.known_as``)."""
    number = number_of(name)
    if number is not None:
        return _shown(connection, C.number == number, limit)
    conditions = [and_(C.lk0.in_(lk0s), IS_REFUSED), C.number.in_(_renamed(connection, lk0s))]
    conditions.append(and_(C.number.in_([parse_lk0(lk0).object_id for lk0 in lk0s]), C.lk0.in_(lk0s), IS_NAMED))
    conditions.append(and_(C.app_key != "", key_column == name))
    if len(parts := name.split("/", 3)) == 4:
        conditions.append(and_(C.app_key == name, key_column == parts[3]))
    numbers = {number for condition in conditions for number in _newest(connection, condition, limit)}
    return _shown(connection, C.number.in_(numbers), limit) if numbers else []


def lk0s_of_number(connection: Connection, number: int) -> list[str]:
    """Return the LK0 of the message that a submission became, or of the refusal; an empty list while it waits."""
    taken = connection.execute(select(TAKEN.lk0).where(TAKEN.number == number)).scalar()
    refused = connection.execute(select(C.lk0).where(C.number == number, IS_REFUSED)).scalar()
    return [lk0 for lk0 in (taken, refused) if lk0]


def present_lk0s(connection: Connection, lk0: str) -> list[str]:
    """Return the present LK0 of the submission whose earlier LK0 is ``lk0``; ``lk0`` if there is none, or while the
    submission waits."""
    return [new for number in _renamed(connection, [lk0]) for new in lk0s_of_number(connection, number)] or [lk0]


def scheduled_as(connection: Connection, number: int) -> list[str]:
    """Return the LK0s under which this node scheduled a submission, also after it became a message."""
    waiting = select(C.lk0).where(C.number == number, IS_NAMED)
    renamed = select(RENAMED.lk0).where(RENAMED.number == number)
    return [lk0 for query in (waiting, renamed) for lk0 in connection.execute(query).scalars()]


def names_before(connection: Connection, name: str) -> list[str]:
    """Return the LK0s under which a submission or message was refused or scheduled before; oldest first."""
    number = number_of(name)
    if number is None:
        number = connection.execute(select(TAKEN.number).where(TAKEN.lk0 == name).limit(1)).scalar()
    if number is None:
        number = connection.execute(select(C.number).where(C.lk0 == name, IS_REFUSED)).scalar()
    if number is None:
        return []
    query = select(RENAMED.lk0).where(RENAMED.number == number, RENAMED.lk0 != name).order_by(RENAMED.at, RENAMED.lk0)
    return list(connection.execute(query).scalars())


def events(row: MessageRow) -> list[TracedLine]:
    """Return the history of a submission, as lines that the ledger does not have."""
    facts: dict[str, object] = {"side": "sender", "att": 0, "target": row["target"], "lk1": "", "digest": ""}
    facts |= {"app_key": row["app_key"], "size": row["size"]}
    lines: list[dict[str, object]] = [{"at": row["at"], "event": SUBMITTED, "detail": ""}]
    if "pieces" in row:
        count, delivered = row["pieces"]["count"], row["pieces"]["delivered"]
        detail = f"{delivered} of {count} pieces delivered"
        line = {"at": row["at"], "event": IN_PIECES, "detail": detail}
        lines = [line] if row["outcome"] else [*lines, line]
    if row["state"] == SCHEDULED:
        until = f", expires at {moment_text(row['expires_at'])}" if row["expires_at"] else ""
        detail = f"not before {moment_text(row['not_before'] or 0)}{until}"
        lines.append({"at": row["at"], "event": SCHEDULED, "detail": detail})
    if row["state"] == WAITS:
        why = " ".join(row["reason"] or ())
        lines.append({"at": row["waits_since"], "event": WAITS, "detail": why})
    return [cast(TracedLine, facts | line | {"words": WORDS[str(line["event"])]}) for line in lines]


def list_submissions(
    connection: Connection, limit: int, *conditions: ColumnElement[bool], is_descending: bool = True
) -> list[MessageRow]:
    """Return the submissions that fit all conditions, the newest first, or the oldest."""
    return _shown(connection, and_(True, *conditions), limit, is_descending)


def conditions(wanted: MessageFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of a filter for submissions, except ``side``, ``source`` and ``mark``."""
    if wanted.partner:
        node = wanted.partner.removeprefix("1.")
        yield func.split_part(C.target, "/", 1).in_([node, f"1.{node}"])
    if wanted.state:
        yield _STATES.get(wanted.state.upper(), false())
    if wanted.type:
        yield func.split_part(C.app_key, "/", 2) == wanted.type
    if wanted.key:
        yield key_column.startswith(wanted.key, autoescape=True)
    if wanted.code:
        yield code_column == wanted.code
    if wanted.since_ms is not None:
        yield C.submitted_at >= func.to_timestamp(wanted.since_ms / 1000)
    if wanted.until_ms is not None:
        yield C.submitted_at < func.to_timestamp(wanted.until_ms / 1000)


def counts(connection: Connection, at_most: int = 10_000) -> dict[str, int]:
    """Return the numbers of submissions by kind, each up to ``at_most``."""

    def count(condition: ColumnElement[bool]) -> int:
        some = select(C.number).where(condition).limit(at_most).subquery()
        return int(connection.execute(select(func.count()).select_from(some)).scalar_one())

    return {
        "refused": count(IS_REFUSED),
        "waiting": count(and_(~IS_REFUSED, ~IS_SCHEDULED)),
        "scheduled": count(and_(IS_SCHEDULED, ~IS_IN_PIECES)),
        "in_pieces": count(and_(IS_IN_PIECES, ~IS_REFUSED)),
    }


def late_in_pieces(connection: Connection, before_ms: int, at_most: int = 10_000) -> int:
    """Return how many documents submitted before ``before_ms`` still wait for their pieces, up to ``at_most``."""
    late = C.submitted_at < func.to_timestamp(before_ms / 1000)
    some = select(C.number).where(IS_IN_PIECES, ~IS_REFUSED, late).limit(at_most).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar_one())


def oldest_open(connection: Connection, now_ms: int) -> int | None:
    """Return the time since which the oldest submission that should have been accepted waits; None if there is none.

    A scheduled document waits since its time. A document in pieces waits since it was submitted.
    """
    since = case((and_(IS_SCHEDULED, ~IS_IN_PIECES), C.not_before), else_=C.submitted_at)
    oldest = select(func.min(since)).where(~IS_REFUSED, since <= func.to_timestamp(now_ms / 1000))
    moment = connection.execute(oldest).scalar()
    return None if moment is None else round(moment.timestamp() * 1000)


def body(connection: Connection, number: int) -> bytes | None:
    """Return the submitted payload; None if there is no such submission."""
    payload = connection.execute(select(C.payload).where(C.number == number)).scalar()
    return None if payload is None else bytes(payload)


def _renamed(connection: Connection, lk0s: Sequence[str]) -> list[int]:
    if not lk0s:
        return []
    return list(connection.execute(select(RENAMED.number).where(RENAMED.lk0.in_(lk0s))).scalars())


def _newest(connection: Connection, condition: ColumnElement[bool], limit: int) -> list[int]:
    """Return the numbers of the newest matching submissions.

    MATERIALIZED makes Postgres use the index of the condition, instead of reading all submissions, the newest first.
    """
    fit = select(C.number).where(condition).cte("fit").prefix_with("MATERIALIZED")
    return list(connection.execute(select(fit.c.number).order_by(fit.c.number.desc()).limit(limit)).scalars())


def _shown(
    connection: Connection, condition: ColumnElement[bool], limit: int, is_descending: bool = True
) -> list[MessageRow]:
    narrow = [column for column in tb_0031_submit.columns if column.name not in ("payload", "headers", "envelope")]
    is_later = or_(W.number.is_(None), W.number < C.number)
    # In other rows these keys are headers of the application, with any value.
    has_facts = and_(IS_NAMED, IS_IN_PIECES, C.headers.has_key("pieces"))
    pieces_left = select(func.count()).where(tb_0031_piece.c.document == C.number).scalar_subquery()
    waits = and_(W.target == C.target, ~IS_REFUSED, ~IS_SCHEDULED, C.wait_code.is_(None), is_later)
    query = (
        select(
            *narrow,
            IS_NAMED.label("is_named"),
            _EXPIRY.label("expires"),
            func.octet_length(C.payload).label("size"),
            case((has_facts, C.headers["size"].astext.cast(BigInteger))).label("whole_size"),
            case((has_facts, C.headers["pieces"].astext.cast(BigInteger))).label("pieces"),
            IS_IN_PIECES.label("is_in_pieces"),
            case((has_facts, pieces_left)).label("pieces_left"),
            W.number.label("before"),
            W.reason_code.label("before_code"),
            W.reason_text.label("before_text"),
            W.since.label("before_since"),
        )
        .select_from(tb_0031_submit.outerjoin(tb_0031_wait, waits))
        .where(condition)
        .order_by(C.number.desc() if is_descending else C.number)
        .limit(limit)
    )
    return [_facts(row) for row in connection.execute(query)]


def _facts(row: TableRow) -> MessageRow:
    is_refused = row.reason_code is not None
    node, _, user = row.target.partition("/")
    target = node if "." in node else f"1.{node}"
    reason = _reason(row)
    at = moment_ms(row.submitted_at)
    lk0 = row.lk0 if (is_refused or row.is_named) and row.lk0 else f"{PREFIX}{row.number}"
    is_counted = row.pieces_left is not None  # older nodes have not stored the number of pieces
    pieces = {"pieces": {"count": row.pieces, "delivered": row.pieces - row.pieces_left}} if is_counted else {}
    not_before = None if row.is_in_pieces else moment_ms(row.not_before)
    since = row.waits_since or (max(row.before_since, row.submitted_at) if row.before_code else None)
    facts = pieces | {
        "side": "outbound", "name": short_name(lk0) or lk0, "direction": Direction.OWN.name,
        "id": parse_lk0(lk0).object_id if lk0 == row.lk0 else lk0, "lk0": lk0, "submission": row.number,
        "state": _state(is_refused, bool(row.is_in_pieces), not_before, reason), "not_before": not_before,
        "expires_at": int(row.expires or 0) or None, "source": ".".join(lk0.split(".")[:2]) if lk0 == row.lk0 else "",
        "target": f"{target}/{user}" if user else target, "save_fwd": SaveFwd(row.save_fwd).value,
        "ack2": bool(row.ack2), "ss_status": None, "outcome": REJECTED if is_refused else None, "reason": reason,
        "order_key": row.order_key, "app_key": row.app_key, "token": row.token,
        "size": row.whole_size if is_counted else row.size, "digest": "", "att": 0, "held": False, "parked": False,
        "void": False, "has_payload": True, "accepted_at": at, "at": at,
        "waits_since": None if is_refused else moment_ms(since), "failed_at": moment_ms(row.refused_at),
    }  # fmt: skip
    return cast(MessageRow, facts)


def _state(is_refused: bool, is_in_pieces: bool, not_before: int | None, reason: list[str] | None) -> str:
    if is_refused:
        return REFUSED
    return IN_PIECES if is_in_pieces else SCHEDULED if not_before else WAITS if reason else SUBMITTED


def _reason(row: TableRow) -> list[str] | None:
    """Return the reason as ``semq_status`` does; None: there is none."""
    if row.reason_code is not None:
        return [row.reason_code, row.reason_text]
    if row.wait_code is not None:
        return [row.wait_code, row.wait_text]
    if row.before_code is None:
        return None
    if row.before is None:  # noted by an older node
        return [row.before_code, row.before_text]
    waiting = (
        f"It waits behind {PREFIX}{row.before} to the same target, which waits: {row.before_code} {row.before_text}"
    )
    return [WAITS_BEHIND, waiting]


def moment_ms(moment: datetime | None) -> int | None:
    """Return milliseconds since 1970 UTC."""
    return None if moment is None else round(moment.timestamp() * 1000)
