"""All cells of all grids. Each exception has the rule of PROTOCOL.md that allows it."""

import ast
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from semq.engine.hub import deeds as hub
from semq.engine.receiver import delivery, reacks, recording
from semq.engine.sender import deeds as sender
from semq.umx_t.errors import ImpossibleEvent
from semq.umx_t.grid import Grid
from semq.umx_t.grids import (
    EXCEPTIONS,
    GRIDS,
    HANDLING,
    HUB,
    OWED,
    RECEIVER,
    SENDER,
    SENDER_12,
    CopyState,
    HandlingDeed,
    HandlingEvent,
    HubDeed,
    HubEvent,
    OwedDeed,
    OwedEvent,
    ReceiverDeed,
    ReceiverEvent,
    SenderDeed,
    SenderEvent,
    SenderState,
)
from semq.umx_t.status import AckStatus, AppStatus, Arrival
from tests.umx_t.pages.grids import PROTOCOL, printed

ENGINE = Path(__file__).parents[2] / "semq" / "engine"
AnyGrid = Grid[Any, Any, Any]
EVENTS: dict[str, type[Enum]] = {
    "class3": SenderEvent,
    "class12": SenderEvent,
    "hub": HubEvent,
    "receiver": ReceiverEvent,
    "owed": OwedEvent,
    "handling": HandlingEvent,
}
DEEDS: dict[type[Enum], tuple[AnyGrid, ...]] = {
    SenderDeed: (SENDER, SENDER_12),
    HubDeed: (HUB,),
    ReceiverDeed: (RECEIVER,),
    OwedDeed: (OWED,),
    HandlingDeed: (HANDLING,),
}
EFFECTS: dict[type[Enum], dict[Any, Any]] = {
    SenderDeed: sender.EFFECTS,
    HubDeed: hub.EFFECTS,
    ReceiverDeed: recording.EFFECTS | reacks.ANSWERS,
    OwedDeed: reacks.EFFECTS,
    HandlingDeed: delivery.EFFECTS,
}
ENDS = {
    SenderState.REJECTED,
    SenderState.CANCELLED,
    SenderState.LOST,
    SenderState.UNKNOWN,
    SenderState.DROPPED,
    SenderState.SS_ACK2,
}
RANK = {
    SenderState.ABSENT: 0,
    SenderState.SS_INIT: 10,
    SenderState.SS_SENT: 20,
    SenderState.SS_ACK_FWD: 30,
    SenderState.SS_ACK: 40,
    SenderState.GONE: 40,
    SenderState.AWAY: 40,
    **dict.fromkeys(ENDS, 50),
    SenderState.FINAL: 50,
}
UNSETTLED = (
    SenderState.SS_INIT,
    SenderState.SS_SENT,
    SenderState.SS_ACK_FWD,
    SenderState.SS_ACK,
    SenderState.GONE,
    SenderState.AWAY,
)
UNDER_WAY = (SenderState.SS_SENT, SenderState.SS_ACK_FWD)

# The only events after which a sender's row returns to SS_INIT, with the columns (PROTOCOL.md section 5.1).
RETURNS_TO_INIT: dict[SenderEvent, tuple[SenderState, ...]] = {
    SenderEvent.fwd_failed: UNDER_WAY,  # S3b
    SenderEvent.not_here: (*UNDER_WAY, SenderState.GONE, SenderState.AWAY),  # S8
    SenderEvent.not_here_bare: (SenderState.GONE,),  # S8: as a void marker
    SenderEvent.offline: (*UNDER_WAY, SenderState.AWAY),  # S9
    SenderEvent.refused_again: (SenderState.SS_SENT,),  # section 18: as a void marker
    SenderEvent.returned: UNSETTLED,  # S15: as a void marker
    SenderEvent.cancel: UNSETTLED,  # S10: as a void marker
    # an operator requests another copy, or the message gets a new signature (S16); sending again is always safe
    SenderEvent.resend: (*UNDER_WAY, SenderState.SS_ACK, SenderState.GONE, SenderState.AWAY),
}
FROM_HUB = (
    SenderEvent.fwd,
    SenderEvent.fwd_failed,
    SenderEvent.discarded,
    SenderEvent.save,
    SenderEvent.gone,
    SenderEvent.unavail,
    SenderEvent.offline,
)
EVIDENCE = {  # S5: an entry of the receiver's ledger, and the state in which it ends a row
    SenderEvent.recv: SenderState.SS_ACK2,
    SenderEvent.rej: SenderState.REJECTED,
    SenderEvent.void: SenderState.CANCELLED,
    SenderEvent.settled: SenderState.UNKNOWN,
}


def ids(grid: AnyGrid) -> str:
    return grid.name


@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_every_cell_is_decided(grid: AnyGrid) -> None:
    assert set(grid.rows) == set(EVENTS[grid.name])
    assert len(set(grid.columns)) == len(grid.columns)
    assert set(grid.rules()) == {(state, event) for state in grid.columns for event in grid.rows}


@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_every_cell_gives_its_rule_or_a_violation(grid: AnyGrid) -> None:
    for (state, event), rule in grid.rules().items():
        if rule is None:
            with pytest.raises(ImpossibleEvent):
                grid.step(state, event)
        else:
            assert grid.step(state, event) is rule
            assert (state, event) in set(grid.cells())


@pytest.mark.parametrize("deeds", DEEDS, ids=lambda deeds: str(deeds.__name__))
def test_every_deed_is_in_a_cell(deeds: type[Enum]) -> None:
    rules = [rule for grid in DEEDS[deeds] for rule in grid.rules().values() if rule is not None]
    assert {rule.deed for rule in rules} - {None} == set(deeds)


@pytest.mark.parametrize("deeds", DEEDS, ids=lambda deeds: str(deeds.__name__))
def test_every_deed_has_an_effect(deeds: type[Enum]) -> None:
    assert set(EFFECTS[deeds]) == set(deeds)


def test_the_protocol_shows_the_grids_as_they_are() -> None:
    shown = PROTOCOL.read_text("utf-8")
    assert printed(shown) == shown
    assert {name for name, _ in EXCEPTIONS} <= {grid.name for grid in GRIDS}


def test_no_caller_ignores_the_rule_of_a_cell() -> None:
    ignored = [
        f"{path.relative_to(ENGINE)}:{node.lineno}"
        for path in sorted(ENGINE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "step"
    ]
    assert not ignored


@pytest.mark.parametrize("grid", [SENDER, SENDER_12], ids=ids)
def test_a_final_state_stays(grid: AnyGrid) -> None:
    for event in grid.rows:
        rule = grid.rules()[SenderState.FINAL, event]
        if event is SenderEvent.corrected:  # the receiver's entry corrects the report of the hub
            assert rule is not None
            assert rule.after is SenderState.SS_ACK2
            continue
        assert rule is None or rule.after is SenderState.FINAL
        assert rule is None or rule.deed in (None, SenderDeed.reack2, SenderDeed.reack)


def test_class_3_only_rises_except_to_be_sent_again() -> None:
    for state, event in SENDER.cells():
        after = SENDER.step(state, event).after
        if state in RETURNS_TO_INIT.get(event, ()):
            assert after is SenderState.SS_INIT
        else:
            assert RANK[after] >= RANK[state], (state, event)


def test_classes_1_and_2_only_rise_so_nothing_is_resent() -> None:
    for state, event in SENDER_12.cells():
        rule = SENDER_12.step(state, event)
        assert RANK[rule.after] >= RANK[state], (state, event)
        assert rule.deed is not SenderDeed.send or state is SenderState.SS_INIT


@pytest.mark.parametrize("grid", [SENDER, SENDER_12], ids=ids)
def test_only_the_receiver_ends_a_row_as_delivered(grid: AnyGrid) -> None:
    for state, event in grid.cells():
        after = grid.step(state, event).after
        if state in (SenderState.ABSENT, SenderState.FINAL):
            continue
        assert (after is SenderState.SS_ACK2) == (event is SenderEvent.recv)
        if event in EVIDENCE:
            assert after is EVIDENCE[event]


def test_an_answer_of_the_hub_never_ends_a_row_of_class_3() -> None:
    for event in FROM_HUB:
        for state in UNSETTLED:
            rule = SENDER.rules()[state, event]
            assert rule is None or RANK[rule.after] < 50


def test_a_refusal_ends_only_documents_that_no_store_has_accepted() -> None:
    ended = {state for state in UNSETTLED if SENDER.step(state, SenderEvent.refused).after is SenderState.REJECTED}
    assert ended == {SenderState.SS_SENT}


def test_an_operator_of_the_hub_ends_no_document_without_the_receivers_ledger() -> None:
    assert {SENDER.step(state, SenderEvent.returned).after for state in UNSETTLED} == {SenderState.SS_INIT}


def test_refusals_are_reported_to_every_inquiry() -> None:
    rules = {event: HUB.step(state, event) for state, event in HUB.cells() if state is CopyState.REFUSED}
    reported = {event for event, rule in rules.items() if rule.deed is HubDeed.refusal}
    assert reported == {HubEvent.again, HubEvent.inquired, HubEvent.asked, HubEvent.ask, HubEvent.refuse}


def test_nothing_is_sent_again_after_the_answer_not_while_a_store_has_custody() -> None:
    rule = SENDER.step(SenderState.SS_ACK, SenderEvent.not_here)
    assert (rule.after, rule.deed) == (SenderState.SS_ACK, None)


def test_evidence_is_always_answered() -> None:
    for event in EVIDENCE:
        assert {SENDER.step(state, event).deed for state in SENDER.columns} == {SenderDeed.reack2}


def states_reached(grid: AnyGrid, start: Any) -> set[Any]:
    """Return all states to which events lead from ``start``."""
    reached, added = {start}, {start}
    while added:
        rules = [rule for (state, _), rule in grid.rules().items() if rule is not None and state in added]
        added = {rule.after for rule in rules} - reached
        reached |= added
    return reached


@pytest.mark.parametrize(
    ("grid", "start", "missing"),
    [
        (
            SENDER,
            SenderState.SS_INIT,
            {SenderState.ABSENT, SenderState.LOST, SenderState.DROPPED, SenderState.FINAL},
        ),  # a row that is marked as lost gets LOST where the grid has CANCELLED
        (
            SENDER_12,
            SenderState.SS_INIT,
            {SenderState.ABSENT, SenderState.LOST, SenderState.FINAL, SenderState.GONE, SenderState.AWAY},
        ),
        (HUB, CopyState.ABSENT, set()),
        (RECEIVER, Arrival.NOT, {Arrival.SETTLED}),  # reached by the floor, not by an event
        (OWED, AckStatus.AS_INIT, set()),
        (HANDLING, AppStatus.NEW, set()),
    ],
    ids=lambda value: value.name if isinstance(value, Grid) else "",
)
def test_every_state_is_reached(grid: AnyGrid, start: Any, missing: set[Any]) -> None:
    assert states_reached(grid, start) == set(start.__class__) - missing


@pytest.mark.parametrize("state", UNSETTLED)
def test_every_unsettled_row_sends_or_asks_and_can_end(state: SenderState) -> None:
    deed = SENDER.step(state, SenderEvent.claim if state is SenderState.SS_INIT else SenderEvent.ask).deed
    assert deed in (SenderDeed.send, SenderDeed.ask_target, SenderDeed.ask_custodian)
    assert ENDS & states_reached(SENDER, state)


def test_the_hub_deletes_rows_only_after_a_statement_of_the_receiver_or_a_noted_refusal() -> None:
    for state, event in HUB.cells():
        if state is not CopyState.ABSENT and HUB.step(state, event).after is CopyState.ABSENT:
            assert event in (HubEvent.ack, HubEvent.held) or (state, event) == (CopyState.REFUSED, HubEvent.noted)


def test_every_ack_about_a_stored_copy_is_answered() -> None:
    for state, event in HUB.cells():
        if event in (HubEvent.ack, HubEvent.ack_other):
            assert HUB.step(state, event).deed is HubDeed.reack


def test_a_message_is_recorded_once_and_its_recorded_status_stays() -> None:
    for state, event in RECEIVER.cells():
        rule = RECEIVER.step(state, event)
        if state is Arrival.NOT and event is not ReceiverEvent.inquiry:
            assert rule.deed is ReceiverDeed.record
            assert rule.after is not Arrival.NOT
        else:
            assert rule.deed is (ReceiverDeed.answer if event is ReceiverEvent.inquiry else ReceiverDeed.acknowledge)
            assert rule.after is state


def test_noted_acknowledgements_and_documents_that_are_done_stay_so() -> None:
    assert all(OWED.step(AckStatus.AS_ACK, event).after is AckStatus.AS_ACK for event in OwedEvent)
    done = [HANDLING.step(state, event) for state, event in HANDLING.cells() if state is AppStatus.DONE]
    assert all((rule.after, rule.deed) == (AppStatus.DONE, None) for rule in done)
