"""The message with its UMX-T attributes (LAYER_MASK 0), and the packet of records (LAYER_MASK 1)."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, LK1, Pos
from semq.umx_t.status import SaveFwd
from semq.umx_t.word import Word

Body = bytes | memoryview
NOTHING_DIGEST = sha256(b"").digest()


class Attributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The UMX-T attributes that an application may set for a document, and ``pieces``."""

    save_fwd: SaveFwd = SaveFwd.MUST
    reliable: bool = True
    ack2: bool = True
    encrypt: bool = False
    fixed: bool = False
    app_key: AppKey = NO_KEY
    order_key: str = ""  #: the receiver's application gets documents with the same key in the order of acceptance
    content_type: str = ""
    content_encoding: str = ""
    priority: int = 0
    expires_at: int = 0  #: milliseconds since 1970 UTC; 0 for never
    user_headers: bytes = b""  #: headers without ``@``: encoded fields of an AMQP table, carried unchanged
    #: set by the sender's node. For a manifest, the name of its document; for a piece, name and number
    pieces: str = ""

    @property
    def is_best_effort(self) -> bool:
        """Whether the document may travel as a datagram: @Reliable=0, class 1, no receipt."""
        return not self.reliable and self.save_fwd is SaveFwd.DROP and not self.ack2


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The transport attributes of one message."""

    source: Address  #: the accepting node, or the hub for a stored copy
    target: Address
    lk0: LK0
    attributes: Attributes
    sender: str = ""  #: user or application at the source node
    sid: int = -1  #: position in the stream (source store, inc, target node); -1 for class 1 and 2
    floor: int = 0  #: lowest unsettled position of the stream when the message was sent
    prev: Pos | None = None  #: position of the previous message with the same order key
    att: int = 0  #: number of the attempt, from 1
    void: bool = False  #: a void marker instead of a payload
    late: bool = False  #: an expired stored copy, without its payload
    lk1: LK1 | None = None  #: set by the hub before it sends a stored copy
    digest: bytes = b""  #: SHA-256 of the payload in clear; salted if the payload is sealed
    submitted_at: int = 0  #: milliseconds since 1970 UTC
    session_key: str = ""  #: wrapped; empty if the payload is in clear
    alg: str = ""  #: algorithms that wrap the session key and seal the payload
    key_id: str = ""  #: id of the receiver's key for which the session key is wrapped
    origin: str = ""  #: LK0, sid and prev of the earlier message with this ciphertext
    signature: str = ""  #: empty if the sender has no certificate
    proved: bool = False  #: in the receiver's store only: a seal or a signature proves the sender
    unknown: dict[str, Any] = {}  #: attributes of a newer version

    @property
    def ident(self) -> str:
        """The LK0 as text."""
        return str(self.lk0)

    @property
    def is_sealed(self) -> bool:
        """Whether any attribute marks the body as a ciphertext."""
        return bool(self.session_key or self.alg or self.key_id or self.origin)

    @property
    def is_class3(self) -> bool:
        """Whether the message must be delivered (@SaveFwd=3)."""
        return self.attributes.save_fwd is SaveFwd.MUST


class Function(Word):
    """The subject of a packet; part of the AMQP property ``type``."""

    DATA = "data"
    RECEIPTS = "810"
    INQUIRIES = "809"
    PRESENCE = "presence"
    DATAGRAMS = "datagrams"


class Primitive(Word):
    """The kind of packet; part of the AMQP property ``type``."""

    NONE = ""
    INDICATION = "indication"
    RESPONSE = "response"
    REQUEST = "request"
    CONFIRMATION = "confirmation"


class Data(msgspec.Struct, frozen=True):
    """An application packet (LAYER_MASK 0): one message."""

    envelope: Envelope
    body: Body = b""
    header: object = None  #: the AMQP content header as it arrived
    dropped: int = 0  #: size of a body that was discarded because it exceeded the link's limit
    bare: int = 0  #: at its sender, the size of a payload that it has deleted (S4)

    @property
    def size(self) -> int:
        """The size of the body as it was sent, in bytes."""
        return self.dropped or len(self.body)

    @property
    def is_bare(self) -> bool:
        """Whether it only renews the signature of the hub's copy: its sender has deleted the payload (S4, S16)."""
        envelope = self.envelope
        is_without = not (len(self.body) or self.dropped or envelope.void or envelope.late)
        return is_without and envelope.is_class3 and envelope.digest != NOTHING_DIGEST


class Packet(msgspec.Struct, frozen=True):
    """A transport packet (LAYER_MASK 1): one or more records of one function and primitive."""

    source: Address
    target: Address
    function: Function
    primitive: Primitive
    records: Sequence[Any]
    header: object = None  #: the AMQP content header as it arrived
    body: Body = b""
    signature: str = ""  #: of all records; empty if the source has no certificate


Frame = Data | Packet
