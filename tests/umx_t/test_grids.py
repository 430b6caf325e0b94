"""Visits to every cell of every grid: all are decided and reachable, nothing leaves a final state, statuses only rise.

The exceptions are named one by one, with the rule of PROTOCOL.md that allows them.
"""

import ast
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from semq.engine.hub import deeds as hub
from semq.engine.receiver import delivery, reacks, recording
from semq.engine.sender import deeds as sender
from semq.umx_t.errors import ImpossibleNews
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
    Arrived,
    HandlingDeed,
    HandlingHeard,
    Heard,
    Held,
    HubDeed,
    HubHeard,
    OwedDeed,
    OwedHeard,
    ReceiverDeed,
    SenderDeed,
    Standing,
)
from semq.umx_t.status import AckStatus, AppStatus, Arrival
from tests.umx_t.pages.grids import PROTOCOL, printed

ENGINE = Path(__file__).parents[2] / "semq" / "engine"
AnyGrid = Grid[Any, Any, Any]
NEWS: dict[str, type[Enum]] = {
    "class3": Heard,
    "class12": Heard,
    "hub": HubHeard,
    "receiver": Arrived,
    "owed": OwedHeard,
    "handling": HandlingHeard,
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
ENDS = {Standing.REJECTED, Standing.CANCELLED, Standing.LOST, Standing.UNKNOWN, Standing.DROPPED, Standing.SS_ACK2}
RANK = {
    Standing.ABSENT: 0,
    Standing.SS_INIT: 10,
    Standing.SS_SENT: 20,
    Standing.SS_ACK_FWD: 30,
    Standing.SS_ACK: 40,
    Standing.GONE: 40,
    Standing.AWAY: 40,
    **dict.fromkeys(ENDS, 50),
    Standing.FINAL: 50,
}
UNSETTLED = (Standing.SS_INIT, Standing.SS_SENT, Standing.SS_ACK_FWD, Standing.SS_ACK, Standing.GONE, Standing.AWAY)
FORWARD = (Standing.SS_SENT, Standing.SS_ACK_FWD)

# The only events after which a sender's row returns to SS_INIT, with the columns (PROTOCOL.md section 5.1).
BACK: dict[Heard, tuple[Standing, ...]] = {
    Heard.fwd_failed: FORWARD,  # S3b
    Heard.not_here: (*FORWARD, Standing.GONE, Standing.AWAY),  # S8
    Heard.not_here_bare: (Standing.GONE,),  # S8: as a void marker
    Heard.offline: (*FORWARD, Standing.AWAY),  # S9
    Heard.refused_again: (Standing.SS_SENT,),  # section 18: as a void marker
    Heard.returned: UNSETTLED,  # S15: as a void marker
    Heard.cancel: UNSETTLED,  # S10: as a void marker
    # a person sends another copy, which is always safe
    Heard.resend: (*FORWARD, Standing.SS_ACK, Standing.GONE, Standing.AWAY),
}
FROM_HUB = (Heard.fwd, Heard.fwd_failed, Heard.discarded, Heard.save, Heard.gone, Heard.unavail, Heard.offline)
EVIDENCE = {  # S5: only entries of the receiver's ledger end a row of class 3
    Heard.recv: Standing.SS_ACK2,
    Heard.rej: Standing.REJECTED,
    Heard.void: Standing.CANCELLED,
    Heard.settled: Standing.UNKNOWN,
}


def ids(grid: AnyGrid) -> str:
    return grid.name


@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_every_cell_is_decided(grid: AnyGrid) -> None:
    assert set(grid.rows) == set(NEWS[grid.name])
    assert len(set(grid.columns)) == len(grid.columns)
    assert set(grid.rules()) == {(standing, on) for standing in grid.columns for on in grid.rows}


@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_every_cell_gives_its_rule_or_a_violation(grid: AnyGrid) -> None:
    for (standing, on), rule in grid.rules().items():
        if rule is None:
            with pytest.raises(ImpossibleNews):
                grid.step(standing, on)
        else:
            assert grid.step(standing, on) is rule
            assert (standing, on) in set(grid.cells())


@pytest.mark.parametrize("deeds", DEEDS, ids=lambda deeds: str(deeds.__name__))
def test_every_deed_is_done_somewhere(deeds: type[Enum]) -> None:
    rules = [rule for grid in DEEDS[deeds] for rule in grid.rules().values() if rule is not None]
    assert {rule.deed for rule in rules} - {None} == set(deeds)


@pytest.mark.parametrize("deeds", DEEDS, ids=lambda deeds: str(deeds.__name__))
def test_every_deed_has_an_effect(deeds: type[Enum]) -> None:
    assert set(EFFECTS[deeds]) == set(deeds)


def test_the_protocol_shows_the_grids_as_they_are() -> None:
    shown = PROTOCOL.read_text("utf-8")
    assert printed(shown) == shown
    assert {name for name, _ in EXCEPTIONS} <= {grid.name for grid in GRIDS}


def test_no_rule_of_a_cell_is_thrown_away() -> None:
    bare = [
        f"{path.relative_to(ENGINE)}:{node.lineno}"
        for path in sorted(ENGINE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "step"
    ]
    assert not bare


@pytest.mark.parametrize("grid", [SENDER, SENDER_12], ids=ids)
def test_nothing_leaves_a_final_state(grid: AnyGrid) -> None:
    for on in grid.rows:
        rule = grid.rules()[Standing.FINAL, on]
        if on is Heard.corrected:  # the receiver's entry corrects the report of the hub
            assert rule is not None
            assert rule.after is Standing.SS_ACK2
            continue
        assert rule is None or rule.after is Standing.FINAL
        assert rule is None or rule.deed in (None, SenderDeed.reack2, SenderDeed.reack)


def test_class_3_only_rises_except_for_a_not_of_the_responsible_party() -> None:
    for standing, on in SENDER.cells():
        after = SENDER.step(standing, on).after
        if standing in BACK.get(on, ()):
            assert after is Standing.SS_INIT
        else:
            assert RANK[after] >= RANK[standing], (standing, on)


def test_classes_1_and_2_only_rise_so_nothing_is_resent() -> None:
    for standing, on in SENDER_12.cells():
        rule = SENDER_12.step(standing, on)
        assert RANK[rule.after] >= RANK[standing], (standing, on)
        assert rule.deed is not SenderDeed.send or standing is Standing.SS_INIT


@pytest.mark.parametrize("grid", [SENDER, SENDER_12], ids=ids)
def test_only_the_receiver_ends_a_row_as_delivered(grid: AnyGrid) -> None:
    for standing, on in grid.cells():
        after = grid.step(standing, on).after
        if standing in (Standing.ABSENT, Standing.FINAL):
            continue
        assert (after is Standing.SS_ACK2) == (on is Heard.recv)
        if on in EVIDENCE:
            assert after is EVIDENCE[on]


def test_an_answer_of_the_hub_never_ends_a_row_of_class_3() -> None:
    for on in FROM_HUB:
        for standing in UNSETTLED:
            rule = SENDER.rules()[standing, on]
            assert rule is None or RANK[rule.after] < 50


def test_a_refusal_ends_only_documents_that_no_store_has_accepted() -> None:
    ended = {standing for standing in UNSETTLED if SENDER.step(standing, Heard.refused).after is Standing.REJECTED}
    assert ended == {Standing.SS_SENT}


def test_an_operator_of_the_hub_ends_no_document_without_the_receivers_ledger() -> None:
    assert {SENDER.step(standing, Heard.returned).after for standing in UNSETTLED} == {Standing.SS_INIT}


def test_refusals_are_reported_to_every_inquiry() -> None:
    rules = {on: HUB.step(standing, on) for standing, on in HUB.cells() if standing is Held.REFUSED}
    result = {on for on, rule in rules.items() if rule.deed is HubDeed.refusal}
    assert result == {HubHeard.again, HubHeard.inquired, HubHeard.asked, HubHeard.ask, HubHeard.refuse}


def test_in_custody_a_not_of_the_receiver_sends_nothing_again() -> None:
    rule = SENDER.step(Standing.SS_ACK, Heard.not_here)
    assert (rule.after, rule.deed) == (Standing.SS_ACK, None)


def test_evidence_is_always_answered() -> None:
    for on in EVIDENCE:
        assert {SENDER.step(standing, on).deed for standing in SENDER.columns} == {SenderDeed.reack2}


def reach(grid: AnyGrid, start: Any) -> set[Any]:
    reached, new = {start}, {start}
    while new:
        new = {
            rule.after for (standing, _), rule in grid.rules().items() if rule is not None and standing in new
        } - reached
        reached |= new
    return reached


@pytest.mark.parametrize(
    ("grid", "start", "missing"),
    [
        (
            SENDER,
            Standing.SS_INIT,
            {Standing.ABSENT, Standing.LOST, Standing.DROPPED, Standing.FINAL},
        ),  # LOST is CANCELLED of a lost row
        (SENDER_12, Standing.SS_INIT, {Standing.ABSENT, Standing.LOST, Standing.FINAL, Standing.GONE, Standing.AWAY}),
        (HUB, Held.ABSENT, set()),
        (RECEIVER, Arrival.NOT, {Arrival.SETTLED}),  # reached by the floor, not by an event
        (OWED, AckStatus.AS_INIT, set()),
        (HANDLING, AppStatus.NEW, set()),
    ],
    ids=lambda value: value.name if isinstance(value, Grid) else "",
)
def test_every_standing_is_reached(grid: AnyGrid, start: Any, missing: set[Any]) -> None:
    assert reach(grid, start) == set(start.__class__) - missing


@pytest.mark.parametrize("standing", UNSETTLED)
def test_no_row_waits_for_ever(standing: Standing) -> None:
    moving = SENDER.step(standing, Heard.claim if standing is Standing.SS_INIT else Heard.ask).deed
    assert moving in (SenderDeed.send, SenderDeed.ask_target, SenderDeed.ask_custodian)
    assert ENDS & reach(SENDER, standing)


def test_the_hub_deletes_rows_only_after_a_statement_of_the_receiver_or_a_noted_refusal() -> None:
    for standing, on in HUB.cells():
        if standing is not Held.ABSENT and HUB.step(standing, on).after is Held.ABSENT:
            assert on in (HubHeard.ack, HubHeard.held) or (standing, on) == (Held.REFUSED, HubHeard.noted)


def test_every_ack_about_a_stored_copy_is_answered() -> None:
    for standing, on in HUB.cells():
        if on in (HubHeard.ack, HubHeard.ack_other):
            assert HUB.step(standing, on).deed is HubDeed.reack


def test_the_first_record_of_a_message_is_the_last() -> None:
    for standing, on in RECEIVER.cells():
        rule = RECEIVER.step(standing, on)
        if standing is Arrival.NOT and on is not Arrived.inquiry:
            assert rule.deed is ReceiverDeed.record
            assert rule.after is not Arrival.NOT
        else:
            assert rule.deed is (ReceiverDeed.answer if on is Arrived.inquiry else ReceiverDeed.acknowledge)
            assert rule.after is standing


def test_noted_and_done_are_final() -> None:
    assert all(OWED.step(AckStatus.AS_ACK, on).after is AckStatus.AS_ACK for on in OwedHeard)
    done = [HANDLING.step(standing, on) for standing, on in HANDLING.cells() if standing is AppStatus.DONE]
    assert all((rule.after, rule.deed) == (AppStatus.DONE, None) for rule in done)
