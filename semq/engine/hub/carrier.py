"""Messages between the instances of a hub, and the port that sends them.

A message may be lost, late or reordered; repeated ones are dropped (``freshness``). It never means custody, and timers
repair a loss (PROTOCOL.md section 10).
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame

StoreName = tuple[int, int]  #: semq_id and semq_db_id


class StoreFrames(msgspec.Struct, frozen=True):
    """To a store: frames of a node, which the front of the session has checked."""

    speaker: Address
    frames: Sequence[Frame]


class Passed(msgspec.Struct, frozen=True):
    """To a front: a frame for a node that has a session there."""

    node: str
    session: int
    number: int  #: number of the document, counted by the sending engine; 0: a packet
    frame: Frame


class Credit(msgspec.Struct, frozen=True):
    """To an engine: how far its documents for a node have arrived, and how many more may follow."""

    node: str
    session: int
    number: int  #: number of the last document that has arrived
    room: int  #: the number of documents that the session takes now


class Acknowledged(msgspec.Struct, frozen=True):
    """To the engine of a store: messages that it forwarded, and whose Ack2 has passed the receiver's front."""

    node: str
    idents: tuple[str, ...]


class Came(msgspec.Struct, frozen=True):
    """A node has a session at the sender of this message."""

    node: str
    session: int  #: later sessions of one front have higher numbers
    since_ms: int  #: time of login, in milliseconds since 1970 UTC
    room: int  #: as in Credit
    certificates: tuple[str, ...] | None
    users_present: tuple[str, ...] = ()
    changes: int = 0  #: number of changes of the other fields since the session began


class Went(msgspec.Struct, frozen=True):
    """A session of a node has ended."""

    node: str
    session: int


class PresentSessions(msgspec.Struct, frozen=True):
    """All sessions of the sender, which serves ``store``."""

    store: StoreName
    sessions: tuple[int, ...]


class Asking(msgspec.Struct, frozen=True):
    """The sender serves ``store`` from now on, and asks for all sessions."""

    store: StoreName


class Alive(msgspec.Struct, frozen=True):
    """The sender serves ``store``. The sums show whether all Came and Went of the sender have arrived."""

    store: StoreName
    count: int  #: number of sessions
    total: int  #: sum of the sessions' numbers
    changes: int = 0  #: sum of the sessions' changes


class Question(msgspec.Struct, frozen=True):
    """To a front: an operator's request about the store of that instance (``platform_node.all_stores``)."""

    number: int  #: rises with each question of one incarnation to another
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
    ``Instances.note_returned``; other losses are not reported. ``life``: incarnation of an instance."""

    def to_store(self, store: StoreName, message: Message) -> None:
        """Send to the engine that serves a store."""

    def to_front(self, life: int, message: Message) -> None: ...

    def to_all(self, message: Message) -> None:
        """Send to all other instances."""
