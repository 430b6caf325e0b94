"""Sending and receiving inside the application's own Postgres transaction, on the database of its node.

Wrappers of the functions in docs/applications/sql.md, with Python's types and SEMQ's errors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult, RowMapping, TextClause, text
from sqlalchemy.exc import DBAPIError

from semq.app.errors import RefusedByNode
from semq.app.values import Document
from semq.moments import EPOCH
from semq.transport.spool import SpooledBody
from semq.umx_t.app_key import AppKey, check_app_key

_SEND = text(
    "SELECT semq_send(:target, :payload, app_key => :app_key, save_fwd => :save_fwd, ack2 => :ack2,"
    " order_key => :order_key, token => :token, content_type => :content_type, headers => CAST(:headers AS jsonb),"
    " encrypt => :encrypt, expires_at => :expires_at, priority => :priority, content_encoding => :content_encoding)"
)
_RECEIVE = text("SELECT * FROM semq_receive(:inbox_user, :at_most)")
_PIECE = text("SELECT semq_piece(:piece)")
_DONE = text("SELECT semq_done(:bref)")
_PARK = text("SELECT semq_park(:bref, :why)")
_STATUS = text("SELECT * FROM semq_status(CAST(:named AS bigint))")
_STATUS_OF_TOKEN = text("SELECT * FROM semq_status(CAST(:named AS text))")


@dataclass(frozen=True, slots=True)
class SubmissionState:
    """The state of a submission."""

    state: str  #: SUBMITTED, SCHEDULED, IN_PIECES, WAITS, REFUSED, a status (SS_SENT) or an outcome (DELIVERED)
    lk0: str  #: locator of the document, or of the refusal in ``semq failed list``; empty before both
    reason: str  #: code and text, or empty
    changed_at: datetime  #: last change of ``state``; for WAITS, when the waiting began


def send(
    connection: Connection,
    target: str,
    body: bytes,
    *,
    app_key: AppKey | str = "",
    save_fwd: int = 3,
    ack2: bool = True,
    order_key: str = "",
    token: str | None = None,
    content_type: str = "",
    headers: Mapping[str, object] | None = None,
    encrypt: bool = False,
    expires_at: datetime | None = None,
    not_before: datetime | None = None,
    priority: int = 0,
    content_encoding: str = "",
) -> int:
    """Submit a document in the caller's transaction and return the number of the submission.

    The node accepts it within a second of the commit. Invalid arguments raise RefusedByNode (the transaction is then
    aborted, as after any error of Postgres) or BadAppKey. The node may refuse the submission later (an unknown target,
    no agreement): ``status``, an event ``failed`` and ``semq failed list`` show it. ``expires_at`` and ``not_before``
    need a time zone; the other arguments are those of ``Client.send``.
    """
    scheduled = {} if not_before is None else {"@NotBefore": ceil(not_before.timestamp() * 1000)}
    values = {
        "target": target,
        "payload": body,
        "app_key": str(check_app_key(app_key) if isinstance(app_key, AppKey) else app_key),
        "save_fwd": save_fwd,
        "ack2": int(ack2),
        "order_key": order_key,
        "token": token,
        "content_type": content_type,
        "headers": msgspec.json.encode({**(headers or {}), **scheduled}).decode(),
        "encrypt": encrypt,
        "expires_at": expires_at,
        "priority": priority,
        "content_encoding": content_encoding,
    }
    return int(_run(connection, _SEND, values).scalar_one())


def receive(connection: Connection, user: str = "", *, at_most: int = 1) -> Iterator[tuple[int, Document]]:
    """Yield waiting documents with their numbers; no other receiver gets them until the caller's transaction ends.

    Call ``done(connection, number)`` in the same transaction for each finished document; the others keep waiting. The
    body of a document in pieces is written to a temporary file: ``Document.blocks`` reads it.
    """
    for row in _run(connection, _RECEIVE, {"inbox_user": user, "at_most": at_most}).mappings():
        document = Document(
            lk0=row["lk0"],
            source=row["source"],
            target=row["inbox_user"],
            app_key=AppKey(row["app_domain"], row["app_type"], row["app_subtype"], row["app_key"]),
            body=_body(connection, row),
            digest=bytes(row["digest"]).hex(),
            content_type=row["content_type"] or "",
            content_encoding=row["content_encoding"] or "",
            priority=row["priority"] or 0,
            order_key=row["order_key"],
            deliveries=row["deliveries"] + 1,
            redelivered=row["deliveries"] > 0,
            submitted_at=row["submitted_at"] or EPOCH,
            headers=row["headers"] or {},
            origin_proved=row["proved"],
        )
        yield int(row["bref"]), document


def done(connection: Connection, number: int) -> None:
    """Finish a document in the caller's transaction. Raises RefusedByNode if it is not waiting (any more)."""
    _run(connection, _DONE, {"bref": number})


def park(connection: Connection, number: int, why: str = "") -> None:
    """Park a document for an operator (PARKED) in the caller's transaction. Raises RefusedByNode as ``done`` does."""
    _run(connection, _PARK, {"bref": number, "why": why})


def status(connection: Connection, named: int | str) -> SubmissionState | None:
    """Return the state of a submission by its number (the result of ``send``) or token; None if it is unknown.

    The node keeps numbers and tokens for seven days after it has accepted the document. It also keeps a number for
    seven days after an operator has removed or withdrawn the submission.
    """
    rows = _run(connection, _STATUS if isinstance(named, int) else _STATUS_OF_TOKEN, {"named": named}).mappings()
    for row in rows:
        reason = f"{row['reason_code']} {row['reason_text'] or ''}".strip() if row["reason_code"] else ""
        return SubmissionState(row["state"], row["lk0"] or "", reason, row["changed_at"])
    return None


def _body(connection: Connection, row: RowMapping) -> bytes | SpooledBody:
    if row["pieces"] is None:
        return bytes(row["payload"])
    body = SpooledBody()
    for piece in row["pieces"]:
        body.add(bytes(_run(connection, _PIECE, {"piece": piece}).scalar_one()))
    return body


def _run(connection: Connection, statement: TextClause, values: Mapping[str, object]) -> CursorResult[Any]:
    try:
        return connection.execute(statement, values)
    except DBAPIError as error:
        message = getattr(getattr(error.orig, "diag", None), "message_primary", None) or str(error.orig)
        code, _, words = message.partition(" ")
        if not code.startswith("SEMQ-"):
            raise
        raise RefusedByNode({"code": code, "text": words}) from error
