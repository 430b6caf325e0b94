"""The library for applications in Python: send documents, receive them, follow their outcome.

There are two ways to use a node. ``Client`` uses AMQP, asynchronously::

    async with Client("amqp://app:password@127.0.0.1:5672") as client:
        sent = await client.send("56001", body, app_key="trade/order/standard/S0001")
        print(sent.lk0, await client.wait_for_delivery(sent.lk0, timeout_s=30))
        async with client.receive() as documents:
            async for document in documents:
                ...
                await document.ack()

``send`` writes a document inside the caller's own SQLAlchemy transaction on the node's database; it is sent if the
transaction commits::

    with engine.begin() as connection:
        connection.execute(orders.insert().values(...))
        send(connection, "56001", body, app_key="trade/order/standard/S0001")

``receive``, ``done`` and ``park`` take, finish and park received documents in the caller's transaction, and ``status``
returns the state of a submission. ``Handlers`` registers functions for received documents; ``semq worker`` runs them.

| module                      | subject                                                                        |
|-----------------------------|--------------------------------------------------------------------------------|
| `client`                    | ``Client``                                                                     |
| `link`                      | one connection to the node, reopened after a loss                              |
| `requests`                  | requests to the node, and their answers                                        |
| `answers`                   | answers of operations as structs                                               |
| `subscription`, `pull`      | received documents and events: as iterators, and taken on demand               |
| `unkept`                    | received documents for which the disk had no room                              |
| `watch`                     | waiting for the outcomes of documents                                          |
| `values`, `errors`          | results, and errors                                                            |
| `content_type`, `file_body` | the content type of a file; bodies that are read in blocks while they are sent |
| `sql`                       | ``send``, ``receive``, ``done``, ``park`` and ``status``                       |
| `handlers`, `worker`        | ``Handlers``; the worker, which runs them                                      |
| `document_tasks`            | documents and events handled concurrently (``semq.folders``, ``semq.webhooks``) |
"""

from importlib import import_module
from typing import TYPE_CHECKING

from semq.app.client import Client
from semq.app.errors import (
    AlreadyGone,
    BadUrl,
    BodyNotKept,
    IncompleteAnswer,
    LoginRefused,
    NoAnswer,
    NodeBusy,
    NodeUnreachable,
    NotDelivered,
    NotYetKnown,
    RefusedByNode,
)
from semq.app.values import Document, DocumentEvent, Fate, GroupMember, Sent
from semq.umx_t.app_key import AppKey

if TYPE_CHECKING:
    from semq.app.handlers import GiveUp, Handlers
    from semq.app.sql import SubmissionState, done, park, receive, send, status

__all__ = [
    "AlreadyGone",
    "AppKey",
    "BadUrl",
    "BodyNotKept",
    "Client",
    "Document",
    "DocumentEvent",
    "Fate",
    "GiveUp",
    "GroupMember",
    "Handlers",
    "IncompleteAnswer",
    "LoginRefused",
    "NoAnswer",
    "NodeBusy",
    "NodeUnreachable",
    "NotDelivered",
    "NotYetKnown",
    "RefusedByNode",
    "Sent",
    "SubmissionState",
    "done",
    "park",
    "receive",
    "send",
    "status",
]


SQL, HANDLERS = "semq.app.sql", "semq.app.handlers"
LAZY_NAMES = {
    "GiveUp": HANDLERS, "Handlers": HANDLERS,
    "SubmissionState": SQL, "done": SQL, "park": SQL, "receive": SQL, "send": SQL, "status": SQL,
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import ``sql`` and ``handlers`` on first use: SQLAlchemy and XML would slow the start of AMQP clients."""
    if name not in LAZY_NAMES:
        raise AttributeError(name)
    return getattr(import_module(LAZY_NAMES[name]), name)
