"""Causes of stuck messages."""

from typing import Any

import pytest
from msgspec.structs import replace

from semq.engine.people.stuck import SILENT_AFTER, StuckCause, Surroundings, is_overdue, stuck_cause

Row = dict[str, Any]
ROW: Row = {
    "side": "outbound", "id": 7, "name": "1-7-4KN6M", "direction": "OWN", "target": "1.56001",
    "ss_status": "SS_INIT", "outcome": None,
    "source": "1.10008", "reason": None, "held": False, "parked": False, "accepted_at": 0,
}  # fmt: skip
RELAYED = ROW | {"direction": "RELAYED"}
RECEIVED: Row = {
    "side": "inbound", "id": 9, "name": "1-9-4KN6M", "save_fwd": 3, "lk1": None, "p_ack_status": "AS_INIT",
    "s_ack_status": "AS_INIT", "app_status": "NEW", "received_at": 0, "source": "1.10008",
}  # fmt: skip
LATE = Surroundings(now_ms=1_000_000, overdue_ms=900_000, online_nodes={"1.56001"})
EARLY = replace(LATE, now_ms=1000)
AWAY = replace(LATE, online_nodes=())
ALONE = replace(LATE, has_hub=False, link_up=False, known_nodes={"1.56001"})  # a node without a hub
SENT, FWD, ACK = {"ss_status": "SS_SENT"}, {"ss_status": "SS_ACK_FWD"}, {"ss_status": "SS_ACK"}


@pytest.mark.parametrize(
    ("row", "around", "cause"),
    [
        (ROW | {"held": True}, EARLY, StuckCause.HELD),
        (ROW | {"held": True, "reason": ["SEMQ-1223", ""]}, EARLY, StuckCause.UNREADABLE),
        (ROW | {"outcome": "REJECTED", "reason": ["SEMQ-1201", ""]}, EARLY, StuckCause.REFUSED),
        (ROW | {"outcome": "REJECTED", "reason": ["SEMQ-5101", ""]}, EARLY, StuckCause.CANNOT_OPEN),
        (ROW | {"outcome": "CANCELLED"}, LATE, None),
        (ROW, EARLY, None),
        (ROW, LATE, StuckCause.NOT_SENT),
        (ROW, replace(LATE, link_up=False), StuckCause.LINK_DOWN),
        (ROW | SENT, LATE, StuckCause.NO_TRANSPORT_ACK),
        (ROW | SENT, replace(LATE, direct_nodes={"1.56001"}), StuckCause.NO_ACK2),
        (ROW, ALONE, StuckCause.DIRECT_LINK_DOWN),
        (ROW | SENT, replace(ALONE, direct_nodes={"1.56001"}), StuckCause.NO_ACK2),
        (ROW, replace(ALONE, known_nodes={"1.88001"}), StuckCause.TARGET_NOT_CONFIGURED),
        (ROW, replace(EARLY, has_hub=False, link_up=False), None),
        (ROW | SENT, replace(LATE, inquiry_counts={7: SILENT_AFTER}), StuckCause.INQUIRY_SILENT),
        (ROW | FWD, LATE, StuckCause.NO_ACK2),
        (ROW | ACK, replace(AWAY, away_rows={7}, inquiry_counts={7: SILENT_AFTER}), StuckCause.CUSTODIAN_AWAY),
        (ROW | ACK, replace(EARLY, away_rows={7}), None),
        (ROW | SENT, replace(LATE, known_nodes={"1.88001"}), StuckCause.TARGET_UNKNOWN),
        (ROW | FWD, replace(LATE, known_nodes={"1.56001"}), StuckCause.NO_ACK2),
        (ROW | ACK, AWAY, StuckCause.TARGET_OFFLINE),
        (RELAYED, AWAY, StuckCause.TARGET_OFFLINE),
        (RELAYED, replace(AWAY, known_nodes={"1.10008"}), StuckCause.TARGET_UNKNOWN),
        (RELAYED | {"held": True, "reason": ["SEMQ-1214", ""]}, EARLY, StuckCause.RETURNED),
        (ROW | {"outcome": "UNKNOWN", "reason": ["SEMQ-1214", ""]}, EARLY, StuckCause.REFUSED),
        (ROW | {"outcome": "UNKNOWN", "reason": ["SEMQ-1201", ""]}, LATE, None),
        (ROW | ACK | {"void": True, "reason": ["SEMQ-1214", ""]}, EARLY, StuckCause.GIVEN_UP),
        (ROW | ACK | {"void": True, "reason": ["SEMQ-1205", ""]}, EARLY, None),
        (RELAYED | SENT, LATE, StuckCause.NO_ACK2),
        (RELAYED | {"parked": True}, EARLY, StuckCause.NEVER_RECORDED),
    ],
)
def test_the_cause_of_a_sender_s_row(row: Row, around: Surroundings, cause: StuckCause | None) -> None:
    assert stuck_cause(row, around) is cause


DONE = RECEIVED | {"app_status": "DONE"}


@pytest.mark.parametrize(
    ("row", "around", "cause"),
    [
        (RECEIVED, EARLY, None),
        (RECEIVED, LATE, StuckCause.NOT_CONSUMED),
        (RECEIVED, replace(LATE, blocked_rows={9}), StuckCause.BLOCKED_BY_ORDER),
        (RECEIVED | {"app_status": "PARKED"}, EARLY, StuckCause.PARKED),
        (DONE, LATE, StuckCause.REACK_MISSING),
        (DONE | {"s_ack_status": "AS_ACK"}, LATE, None),
        (DONE | {"s_ack_status": "AS_ACK", "lk1": "1.1.3"}, LATE, StuckCause.COPY_NOT_NOTED),
        (DONE | {"lk1": "1.1.3"}, LATE, StuckCause.REACK_MISSING),
    ],
)
def test_the_cause_of_a_receiver_s_row(row: Row, around: Surroundings, cause: StuckCause | None) -> None:
    assert stuck_cause(row, around) is cause


def test_every_cause_has_a_next_step() -> None:
    for row in (ROW, RELAYED, RECEIVED | {"target": "1.56001"}):
        assert all(cause.meaning and cause.next_step(row) for cause in StuckCause)
    assert "held" not in "".join(cause.next_step(ROW) for cause in (StuckCause.TARGET_OFFLINE, StuckCause.UNREADABLE))
    assert "`semq held refuse --target 56001 --dry-run`" in StuckCause.TARGET_OFFLINE.next_step(RELAYED)
    assert "`semq held refuse 1-7-4KN6M --why TEXT`" in StuckCause.UNREADABLE.next_step(RELAYED)
    assert "--partner 10008" in StuckCause.BLOCKED_BY_ORDER.next_step(RECEIVED)


@pytest.mark.parametrize(
    ("row", "around", "overdue"),
    [
        (ROW, EARLY, False),
        (ROW, LATE, True),
        (ROW | {"held": True}, LATE, True),
        (ROW | {"outcome": "REJECTED"}, LATE, False),
        (RELAYED | {"parked": True}, LATE, True),
        (RECEIVED, EARLY, False),
        (RECEIVED, LATE, True),
        (RECEIVED | {"app_status": "PARKED", "s_ack_status": "AS_ACK"}, LATE, False),
        (DONE, LATE, True),
        (DONE | {"s_ack_status": "AS_ACK"}, LATE, False),
        (DONE | {"s_ack_status": "AS_ACK", "lk1": "1.1.1"}, LATE, True),
    ],
)
def test_messages_without_an_end_in_their_time_are_overdue(row: Row, around: Surroundings, overdue: bool) -> None:
    assert is_overdue(row, around) is overdue
