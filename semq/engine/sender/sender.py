"""The sender: its rows, the lanes on which they leave, and inquiries about them (PROTOCOL.md section 5.1)."""

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from semq.engine.core import Core
from semq.engine.ports import PreparedEvent, Secrecy
from semq.engine.sender.deeds import AfterOutbound
from semq.engine.sender.lanes import Lane, Pump
from semq.engine.sender.outbound import OutboundRows
from semq.engine.sender.rejected_proofs import RejectedProofs
from semq.engine.sender.resealing import Resealing
from semq.engine.time.schedule import Schedule
from semq.engine.uplink import DIRECTLY, NodeSessions
from semq.store.rows import Outbound, Stored
from semq.store.unit import Recovered, Unit
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Data, Function, Primitive
from semq.umx_t.grids import SenderEvent
from semq.umx_t.locator import LK1
from semq.umx_t.records import Inquiry, InquiryRole
from semq.umx_t.status import SaveFwd


class Sender:
    """The rows of messages that this node sends, and the volatile facts about them."""

    def __init__(
        self,
        core: Core,
        recovered: Recovered,
        secrecy: Secrecy,
        uplink: NodeSessions,
        deliver_to_self: Callable[[list[Data]], None],
    ) -> None:
        self.core = core
        self.uplink = uplink
        self.secrecy = secrecy
        self._deliver_to_self = deliver_to_self  #: called with messages that are addressed to this node itself
        self.pump = Pump(core, self)
        self.rows = OutboundRows(core, recovered, secrecy, self.pump, self)
        self.resealing = Resealing(core, self.rows, secrecy)
        self.rejected_proofs = RejectedProofs(core, secrecy)
        self.schedule = Schedule(core.settings.inquiry_s, core.settings.inquiry_s_max)  #: schedule of inquiries
        self.nonces: dict[int, int] = {}  #: nonce of the last inquiry, by row; answers to earlier ones may be outdated
        self.inquiry_counts: dict[int, int] = {}  #: number of inquiries since the last answer, by row
        #: classes 1 and 2: number of answers to inquiries that did not settle the message, by row
        self.negative_answers: Counter[int] = Counter()
        self.away_since: dict[int, float] = {}  #: rows in custody: since when the custodian cannot be reached
        self._lossy: set[tuple[int, int]] = set()  #: stores that have lost copies, as found in this session

    # --- sending: the methods of ``lanes.LaneOwner``
    def capacity(self, lane: Lane) -> int:
        free = self.core.settings.flight - len(lane.flight)
        if lane.dest == str(self.core.address):
            return free
        return min(self.uplink.room(parse_address(lane.dest)), free)

    def may_claim(self, row: Outbound) -> bool:
        return row.sid < 0 or row.sid < self.rows.floor(row).value + self.core.settings.window

    def claim(self, unit: Unit, row: Outbound, stored: Stored, events: list[PreparedEvent]) -> Data | None:
        after = AfterOutbound(self.core.now_ms())
        self.rows.apply_event(unit, row, SenderEvent.claim, after, self.remark(row.dest), cause=stored)
        events.extend(after.events)
        return after.frames[0] if after.frames else None

    def remark(self, dest: str) -> str:
        return DIRECTLY if self.uplink.direct(parse_address(dest)) is not None else ""

    def send(self, dest: str, frames: list[Data]) -> None:
        if dest == str(self.core.address):
            self._deliver_to_self(frames)
        elif (link := self.uplink.link_for(parse_address(dest))) is not None:
            for frame in self.secrecy.sign_documents(frames[0].envelope.target, frames):
                way = self.uplink.link if frame.bare else link  # the hub has the payload
                if way is not None:
                    way.send(frame)
            self.uplink.count_if_direct(link, len(frames))

    def plan_inquiry(self, object_id: int, sends: int = 1) -> None:
        self.schedule.add(object_id, self.core.now(), sends)

    def note_row_deleted(self, row: Outbound) -> None:
        self.rows.note_row_deleted(row)

    # --- inquiries
    def recover(self, recovered: Recovered) -> None:
        if recovered.unsettled:
            self.schedule.begin(recovered.custody, recovered.first_id - 1, self.core.now())

    def inquire_soon(self) -> None:
        """Inquire soon, because a direct session has begun or ended."""
        spread = self.core.settings.reconnect_spread_s * self.core.clock.random()
        self.schedule.begin_again(self.core.now() + spread)

    def session_began(self) -> None:
        """Inquire soon in a new session with the hub: about rows without custody, and a sample of those in custody."""
        self._lossy.clear()
        spread = self.core.settings.reconnect_spread_s * self.core.clock.random()
        self.schedule.begin_again(self.core.now() + spread, self.core.settings.ask_rows)

    def lost_copy(self, custodian: LK1) -> None:
        """Inquire about all rows now, because a store of the hub has lost a copy; once per session for each store."""
        if custodian[:2] not in self._lossy:
            self._lossy.add(custodian[:2])
            self.core.count("custody_lost")
            self.schedule.make_all_due(self.core.now())

    def ask(self, row: Outbound, custodian: LK1 | None) -> None:
        link = self.uplink.link
        if not self.uplink.reaches(row.target.node):
            return
        nonce = self.nonces[row.object_id] = self.core.new_nonce()
        self.inquiry_counts[row.object_id] = self.inquiry_counts.get(row.object_id, 0) + 1
        floor = self.rows.floor(row).value if row.save_fwd is SaveFwd.MUST else 0
        inquiry = Inquiry(
            role=InquiryRole.S, ident=str(row.lk0), sid=row.sid, floor=floor, nonce=nonce, ref_id=row.object_id
        )
        to = row.target.node
        if custodian is not None and link is not None:
            to, inquiry = link.peer, replace(inquiry, lk1=custodian, ref_id=custodian.object_id)
        self.core.count("inquired")
        self.core.mail.add(to, Function.INQUIRIES, Primitive.REQUEST, inquiry)

    def forget(self, row: Outbound) -> None:
        self.rejected_proofs.forget(row.object_id)
        for volatile in (self.nonces, self.inquiry_counts, self.negative_answers, self.away_since):
            volatile.pop(row.object_id, None)
