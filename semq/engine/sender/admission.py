"""Documents that are being accepted: those not committed yet, and what can be sent at once to a destination."""

from collections.abc import Sequence

from msgspec import Struct, field

from semq.engine.ports import Submission
from semq.engine.sender.groups import messages
from semq.engine.sender.lanes import Lane
from semq.store.rows import Outbound, OutStreamKey
from semq.umx_t.envelope import Data
from semq.umx_t.floor import Floor
from semq.umx_t.status import SaveFwd


class DocumentsUnderWay:
    """The number of checked, uncommitted messages by target node: they count for the quota of their target."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, dest: str) -> int:
        return self._counts.get(dest, 0)

    def begin(self, submission: Submission) -> None:
        submission.is_under_way = True
        for message in messages([submission]):
            dest = str(message.target.node)
            self._counts[dest] = self._counts.get(dest, 0) + 1

    def end(self, submissions: Sequence[Submission]) -> None:
        """Note that documents are rows now, or are refused."""
        for submission in submissions:
            if submission.is_under_way:
                submission.is_under_way = False
                for message in messages([submission]):
                    dest = str(message.target.node)
                    self._counts[dest] -= 1
                    if not self._counts[dest]:
                        del self._counts[dest]


class Destination(Struct, eq=False):
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
