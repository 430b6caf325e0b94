"""Faults: the same seed draws the same faults, and every kind of the tables can be carried out."""

from itertools import islice
from pathlib import Path

import pytest

from semq.installation.configuration import CARRIER
from tests.crash.armed import failpoints
from tests.crash.faults import (
    BY_HAND,
    CLUSTER_KINDS,
    CLUSTER_PLACES,
    DIRECT_KINDS,
    DIRECT_PLACES,
    KINDS,
    PLACES,
    RABBITMQ_PLACES,
    SECURE_KINDS,
    CycleFault,
    FaultInjector,
    failpoints_by_turn,
    plan,
)
from tests.crash.world import BROKERS, CrashWorld


def plans(seed: int, cycles: int, **shape: bool) -> list[list[CycleFault]]:
    points = failpoints_by_turn(seed, cluster=shape.get("cluster", False))
    return [plan(seed, number, points, **shape) for number in range(1, cycles + 1)]


def test_a_seed_draws_the_same_faults_again() -> None:
    assert plans(7, 50) == plans(7, 50)
    assert plans(7, 50) != plans(8, 50)


def test_every_kind_is_drawn_and_can_be_carried_out(tmp_path: Path) -> None:
    world = CrashWorld(tmp_path, 1)
    known_kinds = FaultInjector(world)._kinds.keys()
    for book in world.books.values():
        book.close()
    drawn, secure = (
        {fault.kind for faults in plans(1, 400, secure=is_secure) for fault in faults} for is_secure in (False, True)
    )
    assert drawn == {kind for _, kind, _ in KINDS}
    assert secure == {kind for _, kind, _ in [*KINDS, *SECURE_KINDS]}
    assert {kind for _, kind, _ in [*KINDS, *SECURE_KINDS, *CLUSTER_KINDS, *DIRECT_KINDS]} == set(known_kinds)


@pytest.mark.parametrize("rabbitmq", [False, True])
def test_every_kind_strikes_all_places_of_its_group_in_a_cluster(rabbitmq: bool) -> None:
    strikes = {
        (fault.kind, fault.where) for faults in plans(1, 2_000, cluster=True, rabbitmq=rabbitmq) for fault in faults
    }
    places = RABBITMQ_PLACES if rabbitmq else CLUSTER_PLACES
    for _, kind, group in [*KINDS, *CLUSTER_KINDS]:
        assert {place for drawn, place in strikes if drawn == kind} >= set(places[group])


def test_every_kind_strikes_all_places_of_its_group_with_a_direct_link() -> None:
    strikes = {(fault.kind, fault.where) for faults in plans(1, 1_000, secure=True, direct=True) for fault in faults}
    for _, kind, group in [*KINDS, *SECURE_KINDS, *DIRECT_KINDS]:
        assert {place for drawn, place in strikes if drawn == kind} >= set(DIRECT_PLACES[group])


@pytest.mark.parametrize("seed", range(20))
def test_a_campaign_with_a_direct_link_begins_with_a_change_of_ways_alone(seed: int) -> None:
    first, *_ = plans(seed, 2, secure=True, direct=True)
    assert [fault.kind for fault in first] == ["change ways"]


def test_faults_of_semq_nodes_do_not_strike_rabbitmq() -> None:
    faults = [fault for faults in plans(1, 1_000, cluster=True, rabbitmq=True) for fault in faults]
    assert {fault.kind for fault in faults if fault.where in BROKERS} == {"kill", "kill two", "freeze"}
    assert CARRIER not in {fault.where for fault in faults}


def test_every_failpoint_is_used_once_in_each_turn() -> None:
    count = len(set(islice(failpoints_by_turn(3), 2000)))
    first_turn = list(islice(failpoints_by_turn(3), count))
    assert len(set(first_turn)) == count
    steps = {tuple(point.split(":")) for _, point in first_turn}
    assert steps == {(step, phase) for step, phase in failpoints.all_failpoints() if step not in BY_HAND}
    assert {node for node, _ in first_turn} == set(PLACES["nodes"])


def test_nodes_understand_the_failpoints_they_are_given() -> None:
    faults = [fault for faults in plans(5, 300, cluster=True) for fault in faults]
    texts = [fault.text for fault in faults if fault.kind in ("failpoint", "suspend")]
    assert {text.count(":") for text in texts} == {2, 3}
    assert all(failpoints.armed({failpoints.VARIABLE: text}) is not None for text in texts)
