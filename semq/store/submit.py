"""Sending and receiving in an application's own transaction, on its own connection (rows B1 and B2 of the product).

For Python programs that share a database with their node; others call the same SQL functions. ``insert_submission`` is
sent if the application's transaction commits; what ``receive`` gave is finished if ``done`` commits, together with
whatever the application wrote. The functions themselves are in ``migrations/versions/v0001_functions.sql``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import BYTEA, JSONB
from sqlalchemy.exc import DBAPIError

from semq.errors import BadInput
from semq.store.postgres_errors import NotWaiting

SEND = text(
    "SELECT semq_send(:target, :payload, :app_key, :save_fwd, :ack2, :order_key, :token, :content_type, :headers)"
).bindparams(bindparam("payload", type_=BYTEA), bindparam("headers", type_=JSONB))
RECEIVE = text("SELECT * FROM semq_receive(:inbox_user, :at_most)")
DONE = text("SELECT semq_done(:bref)")
STATE = text("SELECT reason_code, reason_text FROM tb_0031_submit WHERE number = :number")


@dataclass(frozen=True, slots=True)
class Received:
    """A document of the inbox. The columns of the view ``semq_inbox``."""

    bref: int
    lk0: str
    source: str  #: the sender's store
    inbox_user: str
    app_domain: str
    app_type: str
    app_subtype: str
    app_key: str
    order_key: str
    received_at: datetime
    size: int
    digest: bytes
    payload: bytes
    envelope: bytes


def insert_submission(
    connection: Connection,
    target: str,
    payload: bytes,
    *,
    app_key: str = "",
    save_fwd: int = 3,
    ack2: bool = True,
    order_key: str = "",
    token: str | None = None,
    content_type: str = "",
    headers: Mapping[str, Any] | None = None,
) -> int:
    """Hand a document over in the transaction of ``connection``; the number of the submission.

    It counts as accepted when the node has moved it into tb_0031, moments after the commit (PROTOCOL.md section 14); a
    submission that the node refuses stays, see ``refusal_of``. With an AsyncConnection: ``await
    connection.run_sync(insert_submission, target, payload)``. Raises BadInput with the rule that is broken.
    """
    values = {
        "target": target,
        "payload": payload,
        "app_key": app_key,
        "save_fwd": save_fwd,
        "ack2": int(ack2),
        "order_key": order_key,
        "token": token,
        "content_type": content_type,
        "headers": dict(headers or {}),
    }
    try:
        return int(connection.execute(SEND, values).scalar_one())
    except DBAPIError as error:
        raise _typed(error, "22") from error


def refusal_of(connection: Connection, number: int) -> tuple[str, str] | None:
    """Why the node refused a submission: code and words. None while it waits, and once it is accepted."""
    row = connection.execute(STATE, {"number": number}).one_or_none()
    return None if row is None or row.reason_code is None else (row.reason_code, row.reason_text)


def receive(connection: Connection, inbox_user: str = "", at_most: int = 1) -> list[Received]:
    """Documents for the transaction of ``connection``, in order; no other transaction is given them until it ends."""
    rows = connection.execute(RECEIVE, {"inbox_user": inbox_user, "at_most": at_most})
    return [Received(*row) for row in rows]


def done(connection: Connection, bref: int) -> None:
    """Finish a document together with what the transaction of ``connection`` does. Raises NotWaiting."""
    try:
        connection.execute(DONE, {"bref": bref})
    except DBAPIError as error:
        raise _typed(error, "P0002", "23505") from error


def _typed(error: DBAPIError, *expected: str) -> Exception:
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    words = str(error.orig).splitlines()[0]
    if sqlstate.startswith("22") and "22" in expected:
        return BadInput(words)
    if sqlstate in expected:
        return NotWaiting(fault=words)
    return error
