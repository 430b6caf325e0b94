"""The oracle's own book about each message: what was promised, recorded, given and reported, and which disasters.

Written by the oracle alone, from what crosses the borders of the nodes; it shares no state with the code under
test.
"""

from dataclasses import dataclass, field

from semq.umx_t.locator import LK0
from semq.umx_t.status import Arrival, Outcome, SaveFwd, SendStatus


@dataclass(slots=True)
class SimulatedMessage:
    """One document on its way."""

    lk0: LK0
    source: str
    dest: str
    save_fwd: SaveFwd
    ack2: bool
    order_key: str
    payload: bytes
    sid: int
    place: int  #: in accept order, over all messages of the run
    promised: bool = False  #: the application was told that it is accepted
    cancelled: bool = False  #: somebody asked to cancel it
    expires_at: int = 0  #: milliseconds since 1970 UTC; 0: never
    poison: bool = False  #: its receiver cannot read it
    barred: bool = False  #: the hub refuses it at its door, always or at times
    returned: bool = False  #: an operator of the hub has refused a stored copy
    refused_as: set[bool] = field(default_factory=set)  #: and it was the payload, the marker (True), or both in turn
    lied: bool = False  #: the hub has refused it falsely: its receiver has it
    untold: bool = False  #: and its source was not served any more
    recorded: Arrival | None = None  #: in the receiver's store as it is now
    ever: set[Arrival] = field(default_factory=set)  #: in any life of the receiver's store
    status: SendStatus = SendStatus.SS_INIT
    outcome: Outcome | None = None
    ends: set[Outcome] = field(default_factory=set)  #: in any life of its source's store
    custody: set[str] = field(default_factory=set)  #: platform stores that have committed a copy, ever
    copy_lost: bool = False  #: a platform store lost its copy in a disaster
    given: int = 0
    done: bool = False  #: the application has it for good, or it was parked
    parked: bool = False  #: it was set aside, perhaps given another chance since: others need not wait for that
    sent: int = 0  #: by its source
    heard: set[int] = field(default_factory=set)  #: attempts that have come to the hub's door
    doubled: bool = False  #: one came more than once: it may be refused there and taken, as below TLS no network does
    sent_late: int = 0  #: payload transmissions after the last fault, by any node
    forgotten: bool = False  #: accepted after the backup that its source was put back to
    source_restored: bool = False
    dest_restored: bool = False

    @property
    def must(self) -> bool:
        """Whether it must get there."""
        return self.save_fwd is SaveFwd.MUST

    @property
    def refused(self) -> bool:
        """Whether the hub has a reason not to carry it, or an operator there had one."""
        return self.barred or self.returned

    @property
    def may_void(self) -> bool:
        """Whether its own node may have asked for a marker."""
        return self.cancelled or self.expires_at > 0

    @property
    def may_be_lost(self) -> bool:
        """Whether the only copy may have been destroyed by a disaster, or refused without a sender to notify.

        With Ack2=0 the sender deletes the payload at custody, so the hub's copy may be the only one.
        """
        return self.must and not self.ack2 and (self.copy_lost or self.dest_restored or self.untold)

    @property
    def excused(self) -> bool:
        """Whether a declared disaster may have taken it (PROTOCOL.md section 19)."""
        return self.forgotten or self.dest_restored or self.outcome is Outcome.LOST

    @property
    def leaves_a_hole(self) -> bool:
        """Whether it ended without its receiver's ledger, so that no order is promised across it (section 11)."""
        return self.outcome is Outcome.UNKNOWN

    @property
    def makes_way(self) -> bool:
        """Whether a later message of its order need not wait for it any more."""
        ended = self.outcome not in (None, Outcome.DELIVERED)
        unread = self.recorded in (Arrival.VOID, Arrival.REJ)
        return ended or unread or self.parked or self.forgotten or self.source_restored or self.dest_restored


@dataclass(slots=True)
class Books:
    """The oracle's record of one store at the moment of a backup."""

    accepted: int = -1  #: the place of the last message accepted there
    recorded: dict[LK0, Arrival] = field(default_factory=dict)
    outcomes: dict[LK0, Outcome] = field(default_factory=dict)
    held: set[LK0] = field(default_factory=set)


class SourceStream:
    """One stream of a source as the oracle counts it."""

    def __init__(self) -> None:
        self.next_sid = 0
        self.floor = 0
        self.settled: set[int] = set()

    def settle(self, sid: int) -> None:
        """A position is settled; the floor follows."""
        self.settled.add(sid)
        while self.floor in self.settled:
            self.floor += 1
