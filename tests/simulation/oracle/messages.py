"""The oracle's own records of each message, which share no state with the code under test."""

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from semq.umx_t.locator import LK0
from semq.umx_t.status import Arrival, Outcome, SaveFwd, SendStatus


@dataclass(slots=True)
class BackupRecord:
    """The records of the oracle about one store at the moment of a backup."""

    accepted: int = -1  #: number of the last message that any node had accepted; -1: none
    recorded: dict[LK0, Arrival] = field(default_factory=dict)
    outcomes: dict[LK0, Outcome] = field(default_factory=dict)


@dataclass(slots=True)
class SimulatedMessage:
    lk0: LK0
    source: str
    dest: str
    save_fwd: SaveFwd
    ack2: bool
    order_key: str
    payload: bytes
    sid: int
    number: int  #: place in the order of acceptance in the run, from 0
    user: str = ""  #: of the target; empty for the institution itself
    group: str = ""  #: name of the submission to a group
    promised: bool = False  #: the application was informed of the acceptance
    cancelled: bool = False  #: a person asked to cancel it
    expires_at: int = 0  #: milliseconds since 1970 UTC; 0: never
    pieces: str = ""  #: @Pieces
    poison: bool = False  #: the receiver cannot open it
    signers: set[str] = field(default_factory=set)  #: ids of the keys that have signed copies of it
    continued: bool = False  #: another message continues it under a new key
    barred: bool = False  #: the hub refuses it on arrival, always or at times
    returned: bool = False  #: an operator of the hub has refused a stored copy
    refused_as: set[bool] = field(default_factory=set)  #: what operators refused: payload (False), marker (True)
    falsely_refused: bool = False  #: the hub has refused it although the receiver has it
    refused_without_notice: bool = False  #: an operator refused a copy while the hub did not serve the source
    recorded: Arrival | None = None  #: entry in the receiver's store now
    recorded_ever: set[Arrival] = field(default_factory=set)  #: entries there at any time, also before restores
    status: SendStatus = SendStatus.SS_INIT
    outcome: Outcome | None = None
    outcomes_ever: set[Outcome] = field(default_factory=set)  #: at the source at any time, also before restores
    custody: set[str] = field(default_factory=set)  #: stores of the hub that ever committed a copy
    copy_lost: bool = False  #: a store of the hub lost a copy in a disaster
    deliveries: int = 0  #: to the application
    done: bool = False  #: acknowledged by the application, or parked
    parked: bool = False  #: parked at some time
    copies_sent: int = 0  #: by the source
    attempts: set[int] = field(default_factory=set)  #: attempts that have arrived at the hub
    doubled: bool = False  #: an attempt has arrived more than once; it may be both refused and accepted
    sent_after_faults: int = 0  #: transmissions of the payload by any node after the last fault
    forgotten: bool = False  #: accepted after the backup from which the source was restored
    source_restored: bool = False
    dest_restored: bool = False

    def note_restored(self, node: str, record: BackupRecord, undone: Container[LK0]) -> None:
        """Note that the store of a node was restored. ``undone``: messages that its application has not handled."""
        if self.source == node:
            self.source_restored = True
            self.forgotten = self.forgotten or self.number > record.accepted
        if self.dest == node:
            self.dest_restored = True
            self.recorded = record.recorded.get(self.lk0)
            self.done = self.recorded is not None and self.lk0 not in undone

    @property
    def document(self) -> str:
        """The document of a piece or a manifest."""
        return self.pieces.partition("/")[0]

    @property
    def is_piece(self) -> bool:
        return "/" in self.pieces

    @property
    def is_manifest(self) -> bool:
        return bool(self.pieces) and not self.is_piece

    @property
    def is_class3(self) -> bool:
        return self.save_fwd is SaveFwd.MUST

    @property
    def may_be_refused(self) -> bool:
        """Whether the hub or an operator there may refuse it."""
        return self.barred or self.returned

    @property
    def may_void(self) -> bool:
        """Whether the sender may have sent a void marker."""
        return self.cancelled or self.expires_at > 0

    @property
    def may_be_lost(self) -> bool:
        """Whether a disaster may have destroyed the only copy, or an operator refused it without notice to the sender,
        or the sender has lost this notice.

        With Ack2=0 the hub's copy may be the only one.
        """
        is_lost = self.copy_lost or self.dest_restored or self.refused_without_notice
        is_lost = is_lost or (self.returned and self.source_restored)
        return self.is_class3 and not self.ack2 and is_lost

    @property
    def excused(self) -> bool:
        """Whether a disaster excuses its loss (PROTOCOL.md section 19)."""
        return self.forgotten or self.dest_restored or self.outcome is Outcome.LOST

    @property
    def leaves_a_hole(self) -> bool:
        """Whether the receiver may have no entry, so that order is not promised after it (section 11)."""
        return self.outcome is Outcome.UNKNOWN

    @property
    def makes_way(self) -> bool:
        """Whether later messages with the order key need not wait for it."""
        ended = self.outcome not in (None, Outcome.DELIVERED)
        has_no_payload = self.recorded in (Arrival.VOID, Arrival.REJ)
        return ended or has_no_payload or self.parked or self.forgotten or self.source_restored or self.dest_restored


class SourceStream:
    """One stream of a source."""

    def __init__(self) -> None:
        self.next_sid = 0
        self.floor = 0
        self.settled: set[int] = set()

    def settle(self, sid: int) -> None:
        self.settled.add(sid)
        while self.floor in self.settled:
            self.floor += 1


def backup_of(messages: Collection[SimulatedMessage], node: str) -> BackupRecord:
    """Return the records about the store of a node now."""
    return BackupRecord(
        len(messages) - 1,
        {m.lk0: m.recorded for m in messages if m.dest == node and m.recorded is not None},
        {m.lk0: m.outcome for m in messages if m.source == node and m.outcome is not None},
    )
