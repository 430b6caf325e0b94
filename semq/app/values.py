"""Values of the library: a sent document, a received document, an event, an outcome."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import Any

from semq.amqp.content import ContentHeader
from semq.amqp.events import Delivered
from semq.amqp.wire import Timestamp
from semq.app.errors import AlreadyGone
from semq.moments import EPOCH, utc_text
from semq.transport.client_channel import ClientChannel
from semq.transport.spool import SpooledBody
from semq.umx_t.app_key import NO_KEY, AppKey, parse_app_key
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.short_name import short_name

TIME_MAX = MOMENT_MAX - 24 * 3600 * 1000  # milliseconds; in some time zones, a datetime cannot express later times


@dataclass(frozen=True, slots=True)
class Sent:
    """An accepted document: the node has committed it."""

    #: locator of the document; if it is scheduled, in pieces or for a group: locator of the submission
    lk0: str
    digest: str  #: SHA-256 of the body, computed by the node, hexadecimal
    repeated: bool = False  #: the token was known, so no second document was accepted
    token: str = ""
    not_before: int = 0  #: time of the release, in milliseconds since 1970 UTC; 0: not scheduled
    members: int = 0  #: messages to the members of a group; 0 for other targets

    @property
    def name(self) -> str:
        return short_name(self.lk0)


@dataclass(frozen=True, slots=True)
class Fate:
    """The end of a document: ``outcome`` is DELIVERED, REJECTED, CANCELLED, LOST, UNKNOWN or DROPPED."""

    lk0: str
    outcome: str
    reason: str = ""

    @property
    def is_delivered(self) -> bool:
        """Whether the receiving node has committed the document (SS_ACK2)."""
        return self.outcome == "DELIVERED"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """The place of a message in a submission to a group or to all users of an institution."""

    lk0: str  #: of the submission, as in ``Sent``
    target: str  #: the group (3.retailers), or the institution whose users are addressed (4.56001)
    member: int  #: from 1
    members: int


@dataclass(frozen=True, slots=True)
class DocumentEvent:
    """An event about a document of this institution (exchange ``semq.events``)."""

    kind: str  #: sent, forwarded, stored, delivered, failed, refused
    lk0: str
    target: str
    app_key: AppKey
    at: datetime
    attempt: int = 0
    outcome: str = ""
    reason: str = ""
    corrects: str = ""  #: the wrong outcome in an earlier event; empty: none
    token: str = ""  #: of the submission; identifies a refused document, which has no ``lk0``
    group: GroupMember | None = None
    id: str = ""  #: the same whenever the node delivers this event again
    _channel: ClientChannel | None = field(default=None, repr=False, compare=False)
    _tag: int = field(default=0, repr=False, compare=False)

    def ack(self) -> None:
        """Acknowledge an event of ``Client.events(settles=True)``; if its channel is closed, the event comes again."""
        if self._channel is not None and self._channel.is_open:
            self._channel.ack(self._tag)

    @property
    def is_final(self) -> bool:
        """Whether the document has ended."""
        return self.kind in ("delivered", "failed")

    @property
    def fate(self) -> Fate:
        """The outcome; only for final events."""
        return Fate(self.lk0, self.outcome or ("DELIVERED" if self.kind == "delivered" else "UNKNOWN"), self.reason)


@dataclass(slots=True, eq=False)
class Document:
    """A received document. The node delivers it again if the connection ends before ``ack``."""

    lk0: str
    source: str  #: the sending institution, with its user if one was named: 1.10008/buyer
    target: str  #: the address to which it was sent: 1.56001/desk; from ``semq.app.sql`` only the user, or empty
    app_key: AppKey
    body: bytes | SpooledBody  #: a large body is in a file
    digest: str  #: SHA-256 computed by the sender's node, hexadecimal
    content_type: str = ""
    content_encoding: str = ""  #: for instance gzip; the body stays encoded
    priority: int = 0
    order_key: str = ""
    deliveries: int = 1  #: to an application, this one included
    redelivered: bool = False
    submitted_at: datetime = EPOCH
    origin_proved: bool = False  #: a seal or a signature proves that it comes from ``source``
    headers: Mapping[str, Any] = field(default_factory=dict)  #: of the sender, without the UMX-T attributes
    _channel: ClientChannel | None = field(default=None, repr=False)
    _tag: int = field(default=0, repr=False)

    @property
    def payload(self) -> bytes:
        """The body as bytes, in memory."""
        return bytes(self.body)

    @property
    def size(self) -> int:
        return len(self.body)

    def blocks(self) -> Iterable[bytes]:
        return self.body.blocks() if isinstance(self.body, SpooledBody) else (self.body,)

    def drop_body(self) -> None:
        """Release the memory or the file of the body."""
        self.body = b""

    @property
    def is_intact(self) -> bool:
        """Whether the body has the digest that the sender's node computed."""
        digest = self.body.digest if isinstance(self.body, SpooledBody) else sha256(self.body).hexdigest()
        return digest == self.digest

    def described(self) -> dict[str, Any]:
        """Return all fields except the body, for JSON."""
        return {name: _for_json(getattr(self, name)) for name in DESCRIBED}

    @property
    def is_gone(self) -> bool:
        """Whether this delivery cannot be settled: its channel is closed, or it comes from ``semq.app.sql``."""
        return self._channel is None or not self._channel.is_open

    async def ack(self) -> None:
        """Mark the document as processed. Raises AlreadyGone."""
        self._open_channel().ack(self._tag)

    async def requeue(self) -> None:
        """Return the document to its queue for another delivery. Raises AlreadyGone."""
        self._open_channel().nack(self._tag, requeue=True)

    async def reject(self) -> None:
        """Park the document for an operator (PARKED). Raises AlreadyGone."""
        self._open_channel().reject(self._tag, requeue=False)

    def _open_channel(self) -> ClientChannel:
        if self._channel is None or not self._channel.is_open:
            raise AlreadyGone(lk0=self.lk0)
        return self._channel


#: names of the fields in ``Document.described``
DESCRIBED = tuple(each.name for each in fields(Document) if each.name != "body" and not each.name.startswith("_"))


def _for_json(value: object) -> object:
    """Return a value for JSON: bytes as hexadecimal text; AMQP timestamps as numbers; AppKeys, times, decimals, NaN and
    infinity as texts."""
    match value:
        case AppKey():
            return str(value)
        case datetime():
            return utc_text(value, exact=True)
        case bytes():
            return value.hex()
        case float() if not isfinite(value):
            return str(value)
        case Decimal():
            return str(value)
        case Timestamp():
            return int(value)
        case Mapping():
            return {name: _for_json(each) for name, each in value.items()}
        case list():
            return [_for_json(each) for each in value]
    return value


def read_document(channel: ClientChannel, delivered: Delivered) -> Document:
    """Read the document of a delivery from ``semq.inbox``."""
    header: ContentHeader = delivered.header
    headers = header.headers or {}
    return Document(
        lk0=header.message_id or "",
        source=_text(headers.get("@Source")),
        target=delivered.routing_key,
        app_key=_app_key(headers.get("@AppKey")),
        body=delivered.body if isinstance(delivered.body, SpooledBody) else bytes(delivered.body),
        digest=_text(headers.get("@Digest")),
        content_type=header.content_type or "",
        content_encoding=header.content_encoding or "",
        priority=header.priority or 0,
        order_key=_text(headers.get("@OrderKey")),
        deliveries=int(headers.get("@Deliveries") or 1),
        redelivered=delivered.redelivered,
        submitted_at=moment(headers.get("@SubmittedAt")),
        origin_proved=headers.get("@OriginProved") == 1,
        headers={name: value for name, value in headers.items() if not name.startswith("@")},
        _channel=channel,
        _tag=delivered.delivery_tag,
    )


def read_event(channel: ClientChannel, delivered: Delivered) -> DocumentEvent:
    """Read the event of a delivery from ``semq.events``."""
    content = json.loads(delivered.body)
    return DocumentEvent(
        kind=_text(content.get("event")),
        lk0=_text(content.get("lk0")),
        target=_text(content.get("target")),
        app_key=_app_key(content.get("app_key")),
        at=moment(content.get("at")),
        attempt=int(content.get("attempt") or 0),
        outcome=_text(content.get("outcome")),
        corrects=_text(content.get("corrects")),
        token=_text(content.get("token")),
        reason=reason_text(content.get("reason")),
        group=_group_member(content.get("group")),
        id=delivered.header.message_id or "",
        _channel=channel,
        _tag=delivered.delivery_tag,
    )


def _group_member(place: object) -> GroupMember | None:
    """Read a place in a group; None for an incomplete one, because an exception would end the subscription."""
    match place:
        case {"lk0": lk0, "target": target, "member": int(member), "members": int(members)}:
            return GroupMember(_text(lk0), _text(target), member, members)
    return None


def moment(milliseconds: object) -> datetime:
    """Convert milliseconds since 1970 UTC to a datetime; EPOCH for other values, and above ``TIME_MAX``."""
    if not isinstance(milliseconds, int | float) or not 0 < milliseconds <= TIME_MAX:
        return EPOCH
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def reason_text(reason: object) -> str:
    """Return a reason (code and text) as one text."""
    return " ".join(str(part) for part in reason) if isinstance(reason, list | tuple) else _text(reason)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _app_key(value: object) -> AppKey:
    text = _text(value)
    return parse_app_key(text) if text else NO_KEY
