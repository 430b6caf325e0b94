"""The library for applications in Python: hand documents over, receive them, know what became of them.

Two ways to a node. ``Client`` speaks AMQP to it, asynchronously::

    async with Client("amqp://app:password@127.0.0.1:5671") as client:
        sent = await client.send("56001", body, app_key="trade/order/standard/S0001")
        print(sent.lk0, await client.wait_for_delivery(sent.lk0, timeout_s=30))
        async with client.receive() as documents:
            async for document in documents:
                ...
                await document.ack()

``send`` writes a document inside the caller's own SQLAlchemy transaction on the node's database; it travels if that
commits::

    with engine.begin() as connection:
        connection.execute(orders.insert().values(...))
        send(connection, "56001", body, app_key="trade/order/standard/S0001")

``Handlers`` registers functions for what arrives; ``semq worker`` runs them.

``receive``, ``done`` and ``park`` are the same for what arrives, ``status`` tells what has become of what was sent.
Everything else here is a part of these: ``link`` keeps one
connection up, ``requests`` asks a node and gets answers, ``subscription`` is what ``receive`` and ``events`` return,
``values`` are the results, ``errors`` what can go wrong. The library knows AMQP and the words of UMX-T, nothing of
what is inside a node.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semq.app.client import Client
from semq.app.errors import (
    AlreadyGone,
    BadUrl,
    LoginRefused,
    NoAnswer,
    NodeBusy,
    NodeUnreachable,
    NotDelivered,
    NotYetKnown,
    RefusedByNode,
)
from semq.app.values import Document, Event, Fate, Sent
from semq.umx_t.app_key import AppKey

if TYPE_CHECKING:
    from semq.app.handlers import GiveUp, Handlers
    from semq.app.sql import Submitted, done, park, receive, send, status

__all__ = [
    "AlreadyGone",
    "AppKey",
    "BadUrl",
    "Client",
    "Document",
    "Event",
    "Fate",
    "GiveUp",
    "Handlers",
    "LoginRefused",
    "NoAnswer",
    "NodeBusy",
    "NodeUnreachable",
    "NotDelivered",
    "NotYetKnown",
    "RefusedByNode",
    "Sent",
    "Submitted",
    "done",
    "park",
    "receive",
    "send",
    "status",
]


SQL, HANDLERS = "semq.app.sql", "semq.app.handlers"
WHERE = {
    "GiveUp": HANDLERS, "Handlers": HANDLERS,
    "Submitted": SQL, "done": SQL, "park": SQL, "receive": SQL, "send": SQL, "status": SQL,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import SQLAlchemy, and what handlers read bodies with, when they are used: who only speaks AMQP need not wait."""
    if name not in WHERE:
        raise AttributeError(name)
    return getattr(import_module(WHERE[name]), name)
