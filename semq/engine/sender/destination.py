"""One destination of the documents that are accepted in one unit: what can be sent to it at once."""

from dataclasses import dataclass, field

from semq.engine.sender.lanes import Lane
from semq.store.rows import Outbound, OutStreamKey
from semq.umx_t.envelope import Data
from semq.umx_t.floor import Floor
from semq.umx_t.status import SaveFwd


@dataclass(slots=True, eq=False)
class Destination:
    """The documents of one unit to one destination."""

    dest: str
    lane: Lane
    capacity: int  #: number of messages that may be sent now
    stream: OutStreamKey
    floor: Floor
    remark: str  #: about the session, for the ledger
    sent: list[int] = field(default_factory=list)  #: rows that are sent after this commit
    dropped: list[int] = field(default_factory=list)  #: rows of class 1 that could not be sent
    frames: list[Data] = field(default_factory=list)
    waits: dict[int, int] = field(default_factory=dict)  #: number of rows in SS_INIT, by priority

    def takes(self, row: Outbound, window: int) -> bool:
        """Whether a document can be sent at once; only class 1 overtakes waiting documents."""
        if self.lane.has_waiting and row.save_fwd is not SaveFwd.DROP:
            return False
        return len(self.frames) < self.capacity and row.sid < self.floor.value + window
