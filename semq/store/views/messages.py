"""View of messages as dictionaries. Read-only.

The command line and the console rely on keys and values: names of columns, names of statuses, times in milliseconds
since 1970 UTC.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import Connection, Row, and_, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.store.proof_tables import semq_certificate, semq_receipts, semq_session_key
from semq.store.rows import MARKER, Event, KeptKey, KeptReceipts, Side
from semq.store.tables import semq_ledger, tb_0030, tb_0030_body, tb_0030_ledger, tb_0031, tb_0031_body
from semq.store.views import submissions
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.grids import SenderEvent
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.short_name import short_name
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

OUT, IN = tb_0031.c, tb_0030.c
NAMES: dict[str, Any] = {
    "ss_status": SendStatus,
    "outcome": Outcome,
    "direction": Direction,
    "p_ack_status": AckStatus,
    "s_ack_status": AckStatus,
    "app_status": AppStatus,
    "status": Arrival,
}
RETURNED = "SEMQ-1214"  # ``semq.engine.errors.RefusedByOperator``
TRACE_MAX = 10_000  # lines in one trace


def is_sent_piece(c: Any) -> ColumnElement[bool]:
    """Return the condition that a row of tb_0031 is an own piece of a document (PROTOCOL.md section 24)."""
    return and_(c.dest_user == PIECES_USER, c.direction == Direction.OWN)


def is_received_piece(c: Any) -> ColumnElement[bool]:
    """Return the condition that a row of tb_0030 is a piece of a document."""
    return and_(c.target_user == PIECES_USER)


OUT_PIECE, IN_PIECE = is_sent_piece(OUT), is_received_piece(IN)


@dataclass(frozen=True, slots=True)
class Filter:
    """The selection of messages to list. A condition that is None matches every message."""

    side: str = "all"  #: outbound, inbound, all; submitted: only submissions that are not accepted
    state: str | None = None  #: name of a status or an outcome
    partner: str | None = None  #: the institution at the other end
    type: str | None = None  #: type in the AppKey
    key: str | None = None  #: beginning of the key in the AppKey
    code: str | None = None  #: code of the reason
    since_ms: Annotated[int, Meta(ge=0, le=MOMENT_MAX)] | None = None  #: accepted or received since this time
    limit: int = 50
    pieces: bool = False  #: also pieces of documents


def list_messages(connection: Connection, wanted: Filter) -> list[dict[str, Any]]:
    """Return rows of tb_0031 and tb_0030, and submissions that are not accepted; the newest first."""
    rows: list[dict[str, Any]] = []
    if wanted.side in ("all", "outbound"):
        query = select(tb_0031).where(*_outbound_conditions(wanted)).order_by(OUT.object_id.desc()).limit(wanted.limit)
        rows += [outbound_facts(row) for row in connection.execute(query)]
        rows += _submissions(connection, wanted)
    elif wanted.side == "submitted":
        rows += _submissions(connection, wanted)
    if wanted.side in ("all", "inbound"):
        query = select(tb_0030).where(*_inbound_conditions(wanted)).order_by(IN.bref.desc()).limit(wanted.limit)
        rows += [inbound_facts(row) for row in connection.execute(query)]
    return sorted(rows, key=lambda row: row["at"], reverse=True)[: wanted.limit]


def waiting_for(connection: Connection, user: str, at_most: int) -> int:
    """Return how many documents for a user wait for the application, up to ``at_most``."""
    some = select(IN.bref).where(IN.target_user == user, IN.app_status == AppStatus.NEW, IN.status == Arrival.RECV)
    return int(connection.execute(select(func.count()).select_from(some.limit(at_most).subquery())).scalar_one())


def trace(connection: Connection, lk0: str) -> list[dict[str, Any]]:
    """Return the first ``TRACE_MAX`` lines of this node's ledger about a message, in order of time."""
    c = semq_ledger.c
    query = select(semq_ledger).where(c.lk0 == lk0).order_by(c.at, c.number).limit(TRACE_MAX)
    return [_line(row) for row in connection.execute(query)]


def certificates(connection: Connection) -> dict[str, list[str]]:
    """Return the certificates in PEM, by node."""
    return {row.node: list(row.pems) for row in connection.execute(select(semq_certificate))}


def receipts(connection: Connection, number: int) -> KeptReceipts | None:
    """Return a partner's signature over the receipts of a packet; None if the number is unknown."""
    c = semq_receipts.c
    query = select(c.number, c.source, c.signature, c.leaves).where(c.number == number)
    row = connection.execute(query).one_or_none()
    return None if row is None else KeptReceipts(row.number, row.source, row.signature, bytes(row.leaves))


def kept_key(connection: Connection, id_: bytes) -> KeptKey | None:
    """Return a session key, wrapped for this node; None if it is unknown."""
    c = semq_session_key.c
    row = connection.execute(select(c.id, c.peer, c.key_id, c.alg, c.kept).where(c.id == id_)).one_or_none()
    return None if row is None else KeptKey(bytes(row.id), row.peer, row.key_id, row.alg, row.kept)


def body_of(connection: Connection, facts: Mapping[str, Any]) -> bytes | None:
    """Return the payload of a row or submission: empty if only the payload was deleted, None if the row is gone."""
    if "submission" in facts:
        return submissions.body(connection, facts["submission"])
    if facts["side"] == "inbound":
        query = select(tb_0030_body.c.payload).where(tb_0030_body.c.bref == facts["id"])
    else:
        query = select(tb_0031_body.c.payload).where(tb_0031_body.c.object_id == facts["id"])
    payload = connection.execute(query).scalar()
    return bytes(payload) if payload is not None else None


def queue_counts(connection: Connection) -> dict[str, Any]:
    """Return numbers of rows: by state without pieces, of pieces, and of the receiver's ledger."""
    state, count = func.coalesce(OUT.outcome, OUT.ss_status), func.count()
    sent = connection.execute(select(state, OUT_PIECE, count).group_by(state, OUT_PIECE)).all()
    by_status = select(IN.app_status, IN_PIECE, count).group_by(IN.app_status, IN_PIECE)
    received = connection.execute(by_status).all()
    remembered = connection.execute(select(func.count()).select_from(tb_0030_ledger)).scalar_one()
    return {
        "tb_0031": {_state_name(number): count for number, is_piece, count in sent if not is_piece},
        "tb_0030": {AppStatus(number).name: count for number, is_piece, count in received if not is_piece},
        "pieces": {
            "outbound": sum(count for _, is_piece, count in sent if is_piece),
            "inbound": sum(count for _, is_piece, count in received if is_piece),
        },
        "tb_0030_ledger": remembered,
    }


def waiting_by_partner(connection: Connection) -> list[dict[str, Any]]:
    """Return figures of the messages without an outcome, for each partner; only ``rows`` leaves out pieces."""
    query = (
        select(OUT.dest, func.count().filter(~OUT_PIECE), func.sum(OUT.size), func.min(OUT.accepted_at))
        .where(OUT.outcome.is_(None))
        .group_by(OUT.dest)
        .order_by(OUT.dest)
    )
    return [
        {"partner": dest, "rows": count, "bytes": int(size or 0), "oldest_at": _ms(oldest)}
        for dest, count, size, oldest in connection.execute(query)
    ]


def stuck_candidates(
    connection: Connection, before_ms: int, limit: int, after: tuple[int, int] = (0, 0)
) -> list[dict[str, Any]]:
    """Return rows that may be stuck: unfinished rows from before ``before_ms``, and rows that wait for an operator.

    ``limit`` applies to each queue. ``after``: last row numbers in tb_0031 and tb_0030 that were read.
    """
    late = func.to_timestamp(before_ms / 1000)
    out = or_(
        and_(OUT.outcome.is_(None), or_(OUT.accepted_at < late, OUT.held, OUT.parked)),
        OUT.outcome == Outcome.REJECTED,
        and_(or_(OUT.outcome.is_(None), OUT.outcome == Outcome.UNKNOWN), OUT.reason_code == RETURNED),
    )
    owes = or_(
        and_(IN.lk1.is_not(None), IN.p_ack_status == AckStatus.AS_INIT),
        and_(IN.save_fwd == SaveFwd.MUST, IN.s_ack_status == AckStatus.AS_INIT),
    )
    waits = and_(IN.received_at < late, or_(IN.app_status == AppStatus.NEW, owes))
    inbound = or_(waits, IN.app_status == AppStatus.PARKED)
    sent = select(tb_0031).where(out, ~OUT_PIECE, OUT.object_id > after[0]).order_by(OUT.object_id).limit(limit)
    received = select(tb_0030).where(inbound, ~IN_PIECE, IN.bref > after[1]).order_by(IN.bref).limit(limit)
    rows = [outbound_facts(row) for row in connection.execute(sent)]
    return rows + [inbound_facts(row) for row in connection.execute(received)]


def stuck_submissions(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """Return the submissions that may be stuck: all except those that only wait for their time (``@NotBefore``)."""
    rows = submissions.list_submissions(connection, limit, refused=True)
    rows += submissions.list_submissions(connection, limit, refused=False, in_pieces=True)
    return rows + submissions.list_submissions(connection, limit, refused=False, scheduled=False)


def outbound_facts(row: Row[Any]) -> dict[str, Any]:
    """Return a row of tb_0031 as facts."""
    facts = _facts(row, "outbound")
    facts |= {"id": row.object_id, "at": facts["accepted_at"], "target": _address(row.dest, row.dest_user)}
    facts["source"] = ".".join(row.lk0.split(".")[:2])
    return _marked(facts)


def inbound_facts(row: Row[Any]) -> dict[str, Any]:
    """Return a row of tb_0030 as facts."""
    facts = _facts(row, "inbound")
    facts |= {"id": row.bref, "at": facts["received_at"], "source": ".".join(row.store.split(".")[:2])}
    facts["origin"] = "proved" if row.proved else "not proved"
    return _marked(facts)


# ---------------------------------------------------------------------------------------------------- inside


def _marked(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | {"piece": True} if facts["target"].endswith(f"/{PIECES_USER}") else facts


def _submissions(connection: Connection, wanted: Filter) -> list[dict[str, Any]]:
    refused, state = None, (wanted.state or "").upper()
    if state:
        if state not in (submissions.REJECTED, submissions.REFUSED, *submissions.OPEN):
            return []
        refused = state in (submissions.REJECTED, submissions.REFUSED)
    scheduled = state in (submissions.SCHEDULED, submissions.IN_PIECES) if state and not refused else None
    rows = submissions.list_submissions(
        connection, wanted.limit, refused=refused, scheduled=scheduled, partner=wanted.partner, type_=wanted.type,
        key_=wanted.key, code=wanted.code, since_ms=wanted.since_ms,
    )  # fmt: skip
    return [row for row in rows if refused is not False or row["state"] == state]


def _outbound_conditions(wanted: Filter) -> Iterable[ColumnElement[bool]]:
    if not wanted.pieces:
        yield ~OUT_PIECE
    if wanted.partner:
        yield OUT.dest == node_of(wanted.partner)
    if wanted.since_ms is not None:
        yield OUT.accepted_at >= func.to_timestamp(wanted.since_ms / 1000)
    if wanted.state is not None:
        yield has_state(wanted.state, {"ss_status": SendStatus, "outcome": Outcome}, OUT)
    if wanted.code:
        yield OUT.reason_code == wanted.code
    yield from _key_conditions(wanted, OUT)


def _inbound_conditions(wanted: Filter) -> Iterable[ColumnElement[bool]]:
    if not wanted.pieces:
        yield ~IN_PIECE
    if wanted.partner:
        yield IN.store.startswith(node_of(wanted.partner) + ".", autoescape=True)
    if wanted.since_ms is not None:
        yield IN.received_at >= func.to_timestamp(wanted.since_ms / 1000)
    if wanted.state is not None:
        yield has_state(wanted.state, {"app_status": AppStatus, "status": Arrival}, IN)
    if wanted.code:
        yield IN.reason_code == wanted.code
    yield from _key_conditions(wanted, IN)


def _key_conditions(wanted: Filter, c: Any) -> Iterable[ColumnElement[bool]]:
    if wanted.type:
        yield c.app_type == wanted.type
    if wanted.key:
        yield c.app_key.startswith(wanted.key, autoescape=True)


def has_state(name: str, columns: Mapping[str, Any], c: Any) -> ColumnElement[bool]:
    """Return a condition for a status by its name; an unknown name matches no row."""
    fits = [c[column] == kind[name.upper()] for column, kind in columns.items() if name.upper() in kind.__members__]
    return or_(False, *fits)


def node_of(partner: str) -> str:
    """Return the address of an institution from its address or node id."""
    return partner if "." in partner else f"1.{partner}"


def _address(node: str, user: str) -> str:
    return f"{node}/{user}" if user else node


def _state_name(number: int) -> str:
    return (Outcome if number in Outcome._value2member_map_ else SendStatus)(number).name


def _ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


# Columns that are not facts, or are facts under another name.
LEFT_OUT = frozenset({"inc", "dest", "dest_user", "target_user", "store", "src_object_id", "object_id", "bref"})


def _facts(row: Row[Any], side: str) -> dict[str, Any]:
    values = row._asdict()
    facts: dict[str, Any] = {"side": side, "name": short_name(values["lk0"])}
    for name, value in values.items():
        if name in LEFT_OUT or name.startswith(("app_domain", "app_type", "app_subtype", "prev_", "reason_")):
            continue
        if name in NAMES:
            facts[name] = None if value is None else NAMES[name](value).name
        elif name.endswith("_at"):
            facts[name] = _ms(value)
        elif name == "digest":
            facts[name] = bytes(value).hex()
        else:
            facts[name] = value
    key = (values["app_domain"], values["app_type"], values["app_subtype"], values["app_key"])
    facts["app_key"] = "/".join(key) if any(key) else ""
    facts["reason"] = [values["reason_code"], values["reason_text"]] if values["reason_code"] else None
    return facts


def _line(row: Row[Any]) -> dict[str, Any]:
    key = (row.app_domain, row.app_type, row.app_subtype, row.app_key)
    event, detail = Event(row.event), row.detail.strip()
    words = WORDS[event]
    if detail.endswith(MARKER) and event in MARKER_WORDS:
        words, detail = MARKER_WORDS[event], detail.removesuffix(MARKER).removesuffix("; ")
    if event in REPEATED_IN_DETAIL and detail in SENDER_EVENTS:
        detail = ""
    return {
        "at": _ms(row.at),
        "side": Side(row.side).name.lower(),
        "event": event.name,
        "words": words,
        "att": row.att,
        "target": row.target,
        "lk1": row.lk1,
        "app_key": "/".join(key) if any(key) else "",
        "digest": bytes(row.digest).hex(),
        "size": row.size,
        "detail": detail,
    }


# Events whose detail may be the name of a ``SenderEvent``, which says no more than the event: it is left out.
REPEATED_IN_DETAIL = frozenset({Event.SENT, Event.FORWARDED, Event.STORED, Event.DELIVERED})
SENDER_EVENTS = frozenset(event.name for event in SenderEvent)
WORDS: dict[Event, str] = {
    Event.ACCEPTED: "accepted from an application",
    Event.SENT: "sent",
    Event.FORWARDED: "forwarded to the target, which is online",
    Event.STORED: "stored by the hub, which now has custody",
    Event.DELIVERED: "the receiver has it",
    Event.REJECTED: "refused by the receiver or the hub",
    Event.CANCELLED: "ended by its void marker",
    Event.LOST: "lost with a store of the hub",
    Event.UNKNOWN: "its outcome cannot be known",
    Event.DROPPED: "discarded, the target is offline",
    Event.AGAIN: "to be sent again",
    Event.INQUIRED: "inquiry sent",
    Event.ANSWERED: "inquiry answered",
    Event.VOIDED: "cancellation requested",
    Event.RELEASED: "the hub's copy is no longer needed",
    Event.REFUSED: "refused",
    Event.RECEIVED: "received and recorded",
    Event.DUPLICATE: "another copy arrived and was discarded",
    Event.PLATFORM_ACKED: "the hub has noted the acknowledgement",
    Event.SENDER_ACKED: "the sender has noted the acknowledgement",
    Event.GIVEN: "given to the application",
    Event.DONE: "acknowledged by the application",
    Event.PARKED: "parked until an operator decides",
    Event.MISMATCH: "the same message arrived with other bytes: an alarm",
    Event.VIOLATION: "a peer sent something impossible; refused",
    Event.OPERATOR: "action of an operator, or of a rule on an operator's behalf",
}
# Events of a void marker.
MARKER_WORDS: dict[Event, str] = {
    Event.AGAIN: "its void marker is to be sent",
    Event.SENT: "its void marker was sent",
    Event.FORWARDED: "its void marker was forwarded to the target, which is online",
    Event.STORED: "its void marker is stored by the hub",
}
