"""Messages between the instances of a hub, and the port that sends them.

A message may be lost, repeated, late or reordered; it never means custody, and timers repair its loss (PROTOCOL.md
section 10). ``semq.carrier`` sends messages over AMQP.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame

StoreName = tuple[int, int]  #: semq_id and semq_db_id


class StoreFrames(msgspec.Struct, frozen=True):
    """To a store: frames of a node, which the front of its session has checked."""

    number: int  #: rises with each message that one incarnation sends to any store
    speaker: Address
    frames: Sequence[Frame]


class Passed(msgspec.Struct, frozen=True):
    """To a front: a frame for a node that is present there."""

    node: str
    session: int
    number: int  #: number of a document, counted by the engine that sends it; 0: a packet
    frame: Frame


class Credit(msgspec.Struct, frozen=True):
    """To an engine: the progress of its documents for a node."""

    node: str
    session: int
    number: int  #: number of the last document that has arrived
    room: int  #: the number of documents that the session takes now


class Acknowledged(msgspec.Struct, frozen=True):
    """To a store: messages that its engine forwarded, and whose Ack2 has passed the front of the receiver."""

    node: str
    idents: tuple[str, ...]


class Came(msgspec.Struct, frozen=True):
    """A node has a session at the sender of this message."""

    node: str
    session: int  #: later sessions of one front have higher numbers
    since_ms: int  #: time of its login, in milliseconds since 1970 UTC
    room: int  #: the number of documents that the session takes now
    certificates: tuple[str, ...] | None
    users_present: tuple[str, ...] = ()
    changes: int = 0  #: number of changes of the other fields since the session began


class Went(msgspec.Struct, frozen=True):
    """A session of a node has ended."""

    node: str
    session: int


class PresentSessions(msgspec.Struct, frozen=True):
    """All sessions of the sender, which serves this store."""

    store: StoreName
    sessions: tuple[int, ...]


class Asking(msgspec.Struct, frozen=True):
    """The sender serves this store from now on, and asks for all sessions."""

    store: StoreName


class Alive(msgspec.Struct, frozen=True):
    """The sender serves this store. The sums show whether all its Came and Went have arrived."""

    store: StoreName
    count: int  #: number of its sessions
    total: int  #: sum of their numbers
    changes: int = 0  #: sum of their changes


class Question(msgspec.Struct, frozen=True):
    """To a front: a request of an operator about its store, answered by ``platform_node.all_stores``."""

    number: int  #: rises with each question that one incarnation sends to another
    operation: str
    arguments: bytes  #: JSON
    user: str


class Reply(msgspec.Struct, frozen=True):
    """To a front: the answer to a question."""

    number: int
    answer: bytes  #: JSON, compressed


Message = (
    StoreFrames | Passed | Credit | Acknowledged | Came | Went | PresentSessions | Asking | Alive | Question | Reply
)


class HubCarrier(Protocol):
    """Sends messages to other instances, without waiting. Messages for a store that no instance serves come back to
    ``Instances.note_returned``; other losses are not reported. ``life``: the number of an incarnation of an instance.
    """

    def to_store(self, store: StoreName, message: Message) -> None:
        """Send to the engine that serves a store."""

    def to_front(self, life: int, message: Message) -> None:
        """Send to one incarnation of an instance."""

    def to_all(self, message: Message) -> None:
        """Send to all other instances."""
