"""The carrier of a hub with several instances: the messages between instances, and the port that sends them.

A hub of one process has no carrier. A message may be lost, repeated, late or overtaken: it is no custody, and rows and
timers repair what it should have done (PROTOCOL.md section 10). Made and heard by ``instances``; ``semq.carrier`` sends
them over AMQP.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame

StoreName = tuple[int, int]  #: semq_id and semq_db_id


class Said(msgspec.Struct, frozen=True):
    """To a store: frames of a node, which the front of its session has checked against its name."""

    speaker: Address
    frames: Sequence[Frame]


class Passed(msgspec.Struct, frozen=True):
    """To a front: a frame for a node that is present there."""

    node: str
    session: int
    number: int  #: of a document, counted by the engine that sends it; 0: a packet
    frame: Frame


class Credit(msgspec.Struct, frozen=True):
    """To an engine: what its documents for a node have come to."""

    node: str
    session: int
    number: int  #: of the last document that has arrived
    room: int  #: the number of documents that the session takes now


class Acknowledged(msgspec.Struct, frozen=True):
    """To a store: messages forwarded by its engine whose Ack2 has passed the front of their receiver."""

    node: str
    idents: tuple[str, ...]


class Came(msgspec.Struct, frozen=True):
    """A node has a session at the sender of this message."""

    node: str
    session: int  #: later sessions of one front have higher numbers
    since_ms: int  #: of its login, in milliseconds since 1970 UTC
    room: int
    certificates: tuple[str, ...] | None


class Went(msgspec.Struct, frozen=True):
    """A session of a node has ended."""

    node: str
    session: int


class PresentSessions(msgspec.Struct, frozen=True):
    """All sessions of the sender, which serves this store: those of it that are not named have ended."""

    store: StoreName
    sessions: tuple[int, ...]


class Asking(msgspec.Struct, frozen=True):
    """The sender serves this store from now on, and asks who is present."""

    store: StoreName


class Alive(msgspec.Struct, frozen=True):
    """The sender serves this store; number and sum of its sessions show whether its Came and Went have all arrived."""

    store: StoreName
    count: int
    total: int


Message = Said | Passed | Credit | Acknowledged | Came | Went | PresentSessions | Asking | Alive


class HubCarrier(Protocol):
    """Sends messages to other instances. Never waits, and reports no loss but what ``Instances.returned`` is told."""

    def to_store(self, store: StoreName, message: Message) -> None:
        """Send to the engine that serves a store."""

    def to_front(self, life: int, message: Message) -> None:
        """Send to one life of an instance."""

    def to_all(self, message: Message) -> None:
        """Send to all other instances."""
