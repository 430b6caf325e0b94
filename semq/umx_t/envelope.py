"""The message with its UMX-T attributes (LAYER_MASK 0) and the packet of 810/809 records (1); seed 2.1.

Envelopes are values: whoever needs another attempt number or an LK1 makes a changed copy. Bodies are never copied here.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, LK1, Pos
from semq.umx_t.status import SaveFwd
from semq.umx_t.word import Word

Body = bytes | memoryview


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """What an application says about a document: the UMX-T attributes that it may set (seed 2.1, 2.2)."""

    save_fwd: SaveFwd = SaveFwd.MUST
    reliable: bool = True
    ack2: bool = True
    encrypt: bool = False
    fixed: bool = False
    app_key: AppKey = NO_KEY
    order_key: str = ""  #: documents with the same key are given to the receiver's application in accept order
    content_type: str = ""
    content_encoding: str = ""
    priority: int = 0
    expires_at: int = 0  #: milliseconds since 1970 UTC; 0 never
    user_headers: dict[str, Any] = {}  #: headers without ``@``: carried untouched


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The transport attributes of one message on its way."""

    source: Address  #: transport source: the accepting node, or the platform for a stored copy (seed 2.1)
    target: Address
    lk0: LK0
    attributes: Attributes
    sender: str = ""  #: user or application at the source node
    sid: int = -1  #: position in the stream (source store, inc, target); -1 for class 1 and 2
    floor: int = 0  #: lowest unsettled position of that stream when the message was sent
    prev: Pos | None = None  #: position of the message before it with the same order key
    att: int = 0  #: attempt, counts from 1; negative answers and Ack-Fwd must name it
    void: bool = False  #: a void marker instead of a payload
    late: bool = False  #: of a stored copy: its time has passed, and the platform leaves the payload out
    lk1: LK1 | None = None  #: set by the platform before it sends a stored copy
    digest: bytes = b""  #: SHA-256 of the payload as handed over by the application; salted if it is sealed
    submitted_at: int = 0  #: milliseconds since 1970 UTC
    session_key: str = ""  #: the wrapped session key, as text; empty when the payload is in clear
    alg: str = ""  #: how the session key is wrapped and the payload sealed
    key_id: str = ""  #: of the receiver's certificate key that the session key is wrapped for
    origin: str = ""  #: place of the message whose ciphertext this one sends again: LK0, sid, prev
    signature: str = ""  #: by its sender, where that has a certificate
    proved: bool = False  #: in the receiver's store: a seal or a signature proves its sender; never travels
    unknown: dict[str, Any] = {}  #: attributes of a newer version: tolerated and carried (row Q20)

    @property
    def ident(self) -> str:
        """What every acknowledgement about a stored copy must echo (rule R13)."""
        return str(self.lk0)

    @property
    def is_sealed(self) -> bool:
        """Whether anything says that the body is a ciphertext."""
        return bool(self.session_key or self.alg or self.key_id or self.origin)

    @property
    def is_class3(self) -> bool:
        """Whether it must get there (@SaveFwd=3)."""
        return self.attributes.save_fwd is SaveFwd.MUST

    @property
    def pos(self) -> Pos:
        """The place in its stream; meaningful for class 3 only."""
        return Pos(self.lk0.inc, self.sid)


class Function(Word):
    """What a packet is about; part of the AMQP property ``type``."""

    DATA = "data"
    RECEIPTS = "810"
    INQUIRIES = "809"
    PRESENCE = "presence"


class Primitive(Word):
    """How it is meant, in the words of the application layer."""

    NONE = ""
    INDICATION = "indication"
    RESPONSE = "response"
    REQUEST = "request"
    CONFIRMATION = "confirmation"


class Data(msgspec.Struct, frozen=True):
    """An application packet (LAYER_MASK 0): one message."""

    envelope: Envelope
    body: Body = b""
    header: object = None  #: the AMQP content header as it arrived: a forwarded message leaves with the same bytes
    dropped: int = 0  #: octets of a body that was too large for the link and was not kept: it can only be refused

    @property
    def size(self) -> int:
        """Octets of the body as it was sent."""
        return self.dropped or len(self.body)


class Packet(msgspec.Struct, frozen=True):
    """A transport packet (LAYER_MASK 1): one or many records of one function and primitive."""

    source: Address
    target: Address
    function: Function
    primitive: Primitive
    records: Sequence[Any]
    header: object = None  #: the AMQP content header and the body as they arrived: a relayed packet leaves with them
    body: Body = b""
    signature: str = ""  #: of the source, over all records; empty where the source has no certificate


Frame = Data | Packet
