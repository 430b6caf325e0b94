"""View of messages as dictionaries. Read-only.

The command line and the console rely on keys and values: names of columns, names of statuses, times in milliseconds
since 1970 UTC.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import cast

from sqlalchemy import Connection, and_, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessageRow, TracedLine
from semq.store.proof_tables import semq_certificate, semq_receipts, semq_session_key
from semq.store.rows import MARKER, Event, KeptKey, KeptReceipts, Side
from semq.store.tables import Columns, TableRow, semq_ledger, tb_0030, tb_0030_body, tb_0031, tb_0031_body
from semq.store.views import submissions
from semq.store.views.submissions import moment_ms
from semq.umx_t.grids import SenderEvent
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.short_name import short_name
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

OUT, IN = tb_0031.c, tb_0030.c
NAMES: dict[str, type[IntEnum]] = {
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


def is_sent_piece(c: Columns) -> ColumnElement[bool]:
    """Return the condition that a row of tb_0031 is an own piece of a document (PROTOCOL.md section 24)."""
    return and_(c.dest_user == PIECES_USER, c.direction == Direction.OWN)


def is_received_piece(c: Columns) -> ColumnElement[bool]:
    """Return the condition that a row of tb_0030 is a piece of a document."""
    return and_(c.target_user == PIECES_USER)


OUT_PIECE, IN_PIECE = is_sent_piece(OUT), is_received_piece(IN)


def owed(c: Columns) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions that the hub, and that the sender, has not noted the acknowledgement of a received row.

    ``semq.store.rows.Pending.owes`` is the same rule for a row in memory.
    """
    by_hub = and_(c.lk1.is_not(None), c.p_ack_status == AckStatus.AS_INIT)
    return by_hub, and_(c.save_fwd == SaveFwd.MUST, c.s_ack_status == AckStatus.AS_INIT)


def waiting_for(connection: Connection, user: str, at_most: int) -> int:
    """Return how many documents for a user wait for the application, up to ``at_most``."""
    some = select(IN.bref).where(IN.target_user == user, IN.app_status == AppStatus.NEW, IN.status == Arrival.RECV)
    return int(connection.execute(select(func.count()).select_from(some.limit(at_most).subquery())).scalar_one())


def trace(connection: Connection, lk0: str) -> list[TracedLine]:
    """Return the first ``TRACE_MAX`` lines of this ledger about a message, in the order in which they were written."""
    c = semq_ledger.c
    query = select(semq_ledger).where(c.lk0 == lk0).order_by(c.number).limit(TRACE_MAX)
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


def body_of(connection: Connection, facts: MessageRow) -> bytes | None:
    """Return the payload of a row or submission: empty if only the payload was deleted, None if the row is gone."""
    if "submission" in facts:
        return submissions.body(connection, facts["submission"])
    if facts["side"] == "inbound":
        query = select(tb_0030_body.c.payload).where(tb_0030_body.c.bref == facts["id"])
    else:
        query = select(tb_0031_body.c.payload).where(tb_0031_body.c.object_id == facts["id"])
    payload = connection.execute(query).scalar()
    return bytes(payload) if payload is not None else None


def outbound_facts(row: TableRow) -> MessageRow:
    """Return a row of tb_0031 as facts."""
    facts = _facts(row, "outbound")
    facts |= {"id": row.object_id, "at": facts["accepted_at"], "target": _address(row.dest, row.dest_user)}
    facts["source"] = ".".join(row.lk0.split(".")[:2])
    return _marked(facts)


def inbound_facts(row: TableRow) -> MessageRow:
    """Return a row of tb_0030 as facts."""
    facts = _facts(row, "inbound")
    facts |= {"id": row.bref, "at": facts["received_at"], "source": ".".join(row.store.split(".")[:2])}
    facts["origin"] = "proved" if row.proved else "not proved"
    return _marked(facts)


# ---------------------------------------------------------------------------------------------------- inside


def _marked(facts: dict[str, object]) -> MessageRow:
    if str(facts["target"]).endswith(f"/{PIECES_USER}"):
        facts["piece"] = True
    return cast(MessageRow, facts)


def has_state(name: str, columns: Mapping[str, type[IntEnum]], c: Columns) -> ColumnElement[bool]:
    """Return a condition for a status by its name; an unknown name matches no row."""
    fits = [c[column] == kind[name.upper()] for column, kind in columns.items() if name.upper() in kind.__members__]
    return or_(False, *fits)


def node_of(partner: str) -> str:
    """Return the address of an institution from its address or node id."""
    return partner if "." in partner else f"1.{partner}"


def _address(node: str, user: str) -> str:
    return f"{node}/{user}" if user else node


# Columns that are not facts, or are facts under another name.
LEFT_OUT = frozenset({"inc", "dest", "dest_user", "target_user", "store", "src_object_id", "object_id", "bref"})


def _facts(row: TableRow, side: str) -> dict[str, object]:
    values = row._asdict()
    facts: dict[str, object] = {"side": side, "name": short_name(values["lk0"])}
    for name, value in values.items():
        if name in LEFT_OUT or name.startswith(("app_domain", "app_type", "app_subtype", "prev_", "reason_")):
            continue
        if name in NAMES:
            facts[name] = None if value is None else NAMES[name](value).name
        elif name.endswith("_at"):
            facts[name] = moment_ms(value)
        elif name == "digest":
            facts[name] = bytes(value).hex()
        else:
            facts[name] = value
    key = (values["app_domain"], values["app_type"], values["app_subtype"], values["app_key"])
    facts["app_key"] = "/".join(key) if any(key) else ""
    facts["reason"] = [values["reason_code"], values["reason_text"]] if values["reason_code"] else None
    return facts


def _line(row: TableRow) -> TracedLine:
    key = (row.app_domain, row.app_type, row.app_subtype, row.app_key)
    event, detail = Event(row.event), row.detail.strip()
    words = WORDS[event]
    if detail.endswith(MARKER) and event in MARKER_WORDS:
        words, detail = MARKER_WORDS[event], detail.removesuffix(MARKER).removesuffix("; ")
    if event in REPEATED_IN_DETAIL and detail in SENDER_EVENTS:
        detail = ""
    detail = DETAIL_WORDS.get(detail, detail)
    return {
        "at": round(row.at.timestamp() * 1000), "side": Side(row.side).name.lower(), "event": event.name,
        "words": words, "att": row.att, "target": row.target, "lk1": row.lk1,
        "app_key": "/".join(key) if any(key) else "", "digest": bytes(row.digest).hex(), "size": row.size,
        "detail": detail,
    }  # fmt: skip


# Events whose detail may be the name of a ``SenderEvent``, which says no more than the event: it is left out.
REPEATED_IN_DETAIL = frozenset({Event.SENT, Event.FORWARDED, Event.STORED, Event.DELIVERED})
SENDER_EVENTS = frozenset({*(event.name for event in SenderEvent), "again"})
# Detail that is the name of an event | why the message is sent again
DETAIL_WORDS: dict[str, str] = {
    SenderEvent.fwd_failed.name: "the hub could not forward it",
    SenderEvent.gone.name: "the hub no longer has its copy",
    SenderEvent.unavail.name: "the store of the hub that has its copy does not answer",
    SenderEvent.not_here.name: "the receiver does not have it",
    SenderEvent.offline.name: "the receiver is offline, and the hub has no copy",
    SenderEvent.resend.name: "an operator requested it, or it needs a new signature",
    SenderEvent.not_here_bare.name: "the receiver does not have it, and this node has no payload any more",
    SenderEvent.cancel.name: "cancelled or expired",
    SenderEvent.ask.name: "no answer came in time",
    SenderEvent.refused.name: "the hub refused it",
    SenderEvent.returned.name: "an operator of the hub refused its copy",
    SenderEvent.returned_late.name: "an operator of the hub refused its copy",
    SenderEvent.refused_again.name: "the hub refused it; an earlier copy may have arrived",
}
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
    Event.MISMATCH: "the same document arrived with other bytes: an alarm",
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
