"""Content headers: raw octets until somebody needs a field of them.

``ContentHeader`` keeps the payload of the header frame as it came; a hub that only passes a message on never
decodes it. ``Properties`` is the value to build one from.
"""

from semq.amqp.record import Record
from semq.amqp.wire import Table


class Properties(Record):
    """The properties of class basic; None means absent."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


class ContentHeader:
    """The payload of a content header frame, decoded where it is asked."""
