"""Every situation that keeps a message has its cause, and what moves has none."""

from dataclasses import replace

import pytest

from semq.engine.stuck import SILENT_AFTER, Cause, Surroundings, why_outbound, why_pending
from semq.store.rows import Outbound, Pending
from semq.umx_t.address import Address
from semq.umx_t.locator import LK0, LK1
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

LK = LK0(1, "10008", 1, 1, 5, 7)
ROW = Outbound(7, Direction.OWN, LK, Address(1, "56001"), SaveFwd.MUST, True, accepted_at=0)
RELAYED = replace(ROW, direction=Direction.RELAYED)
RECEIVED = Pending(9, LK, 0, Address(1, "56001"), SaveFwd.MUST, True, Arrival.RECV, received_at=0)
LATE = Surroundings(now_ms=1_000_000, overdue_ms=900_000, online={"1.56001"})
EARLY = replace(LATE, now_ms=1000)
AWAY = replace(LATE, online=())
SENT, FWD, ACK = SendStatus.SS_SENT, SendStatus.SS_ACK_FWD, SendStatus.SS_ACK


@pytest.mark.parametrize(
    ("row", "around", "cause"),
    [
        (replace(ROW, held=True), EARLY, Cause.HELD),
        (replace(ROW, outcome=Outcome.REJECTED, reason=("SEMQ-1201", "")), EARLY, Cause.REFUSED),
        (replace(ROW, outcome=Outcome.REJECTED, reason=("SEMQ-5101", "")), EARLY, Cause.CANNOT_OPEN),
        (replace(ROW, outcome=Outcome.CANCELLED), LATE, None),
        (ROW, EARLY, None),
        (ROW, LATE, Cause.NOT_SENT),
        (ROW, replace(LATE, link_up=False), Cause.LINK_DOWN),
        (replace(ROW, ss_status=SENT), LATE, Cause.NO_TRANSPORT_ACK),
        (replace(ROW, ss_status=SENT), replace(LATE, asked={7: SILENT_AFTER}), Cause.INQUIRY_SILENT),
        (replace(ROW, ss_status=FWD), LATE, Cause.NO_ACK2),
        (replace(ROW, ss_status=ACK), AWAY, Cause.TARGET_OFFLINE),
        (RELAYED, AWAY, Cause.TARGET_OFFLINE),
        (replace(RELAYED, ss_status=SENT), LATE, Cause.NO_ACK2),
        (replace(RELAYED, parked=True), EARLY, Cause.NEVER_ANSWERED),
    ],
)
def test_a_sender_s_row(row: Outbound, around: Surroundings, cause: Cause | None) -> None:
    assert why_outbound(row, around) is cause


DONE = replace(RECEIVED, app_status=AppStatus.DONE)


@pytest.mark.parametrize(
    ("row", "around", "cause"),
    [
        (RECEIVED, EARLY, None),
        (RECEIVED, LATE, Cause.NOT_CONSUMED),
        (RECEIVED, replace(LATE, blocked={9}), Cause.BLOCKED_BY_ORDER),
        (replace(RECEIVED, app_status=AppStatus.PARKED), EARLY, Cause.PARKED),
        (DONE, LATE, Cause.REACK_MISSING),
        (replace(DONE, s_ack_status=AckStatus.AS_ACK), LATE, None),
        (replace(DONE, s_ack_status=AckStatus.AS_ACK, lk1=LK1(1, 1, 3)), LATE, Cause.REACK_MISSING),
    ],
)
def test_a_receiver_s_row(row: Pending, around: Surroundings, cause: Cause | None) -> None:
    assert why_pending(row, around) is cause


def test_every_cause_says_what_to_do() -> None:
    assert all(cause.meaning and cause.next_step for cause in Cause)
