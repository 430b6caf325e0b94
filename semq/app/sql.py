"""Sending and receiving inside the application's own Postgres transaction, on the database of its node.

The functions of the schema (``semq_send``, ``semq_receive``, ``semq_done``: migrations) do the work; here they get
Python's types and SEMQ's errors. A document that is sent travels if the caller's transaction commits, one that is
done is finished if it does: the application's own change and the document are one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from semq.app.errors import RefusedByNode
from semq.app.values import Document
from semq.umx_t.app_key import AppKey, check_app_key

_SEND = text(
    "SELECT semq_send(:target, :payload, app_key => :app_key, save_fwd => :save_fwd, ack2 => :ack2,"
    " order_key => :order_key, token => :token, content_type => :content_type, headers => CAST(:headers AS jsonb))"
)
_RECEIVE = text("SELECT * FROM semq_receive(:inbox_user, :at_most)")
_DONE = text("SELECT semq_done(:bref)")


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
    headers: Mapping[str, Any] | None = None,
) -> int:
    """Hand a document over in the caller's transaction; the number of the submission.

    The node takes it within a second of the commit. What can be seen at once raises RefusedByNode (the transaction is
    then over, as after any error of Postgres) or BadAppKey. What only the node knows (an unknown target, the quota)
    stays in ``tb_0031_submit`` with its reason.
    """
    values = {
        "target": target,
        "payload": body,
        "app_key": str(check_app_key(app_key) if isinstance(app_key, AppKey) else app_key),
        "save_fwd": save_fwd,
        "ack2": int(ack2),
        "order_key": order_key,
        "token": token,
        "content_type": content_type,
        "headers": msgspec.json.encode(headers or {}).decode(),
    }
    return int(_run(connection, _SEND, values).scalar_one())


def receive(connection: Connection, user: str = "", *, at_most: int = 1) -> Iterator[tuple[int, Document]]:
    """Documents that wait, each with its number; nobody else is given them until the caller's transaction ends.

    Call ``done(connection, number)`` in the same transaction for what is finished; the rest waits on.
    """
    for row in _run(connection, _RECEIVE, {"inbox_user": user, "at_most": at_most}).mappings():
        document = Document(
            lk0=row["lk0"],
            source=row["source"],
            target=row["inbox_user"],
            app_key=AppKey(row["app_domain"], row["app_type"], row["app_subtype"], row["app_key"]),
            payload=bytes(row["payload"]),
            digest=bytes(row["digest"]).hex(),
            order_key=row["order_key"],
        )
        yield int(row["bref"]), document


def done(connection: Connection, number: int) -> None:
    """Finish a document in the caller's transaction. Raises RefusedByNode if it is not waiting (any more)."""
    _run(connection, _DONE, {"bref": number})


def _run(connection: Connection, statement: Any, values: Mapping[str, Any]) -> Any:
    try:
        return connection.execute(statement, values)
    except DBAPIError as error:
        message = getattr(getattr(error.orig, "diag", None), "message_primary", None) or str(error.orig)
        code, _, words = message.partition(" ")
        if not code.startswith("SEMQ-"):
            raise
        raise RefusedByNode({"code": code, "text": words}) from error
