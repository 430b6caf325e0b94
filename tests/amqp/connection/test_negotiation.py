"""Negotiation of limits by tune, and of capabilities."""

from typing import Any

import pytest

from semq.amqp import ConnectionLimits
from semq.amqp.connection.negotiation import NegotiatedLimits, accept, answer, capabilities_of, lower_limit
from semq.amqp.errors import NotAllowed
from semq.amqp.methods import ConnectionTune, ConnectionTuneOk

OURS = ConnectionLimits(frame_max=8192, channel_max=100, heartbeat=30)
UNLIMITED = ConnectionLimits(frame_max=0, channel_max=0, heartbeat=0)


@pytest.mark.parametrize(("ours", "theirs", "agreed"), [(5, 7, 5), (7, 5, 5), (0, 5, 5), (5, 0, 5), (0, 0, 0)])
def test_the_lower_value_applies_and_zero_is_no_limit(ours: int, theirs: int, agreed: int) -> None:
    assert lower_limit(ours, theirs) == agreed


@pytest.mark.parametrize(
    ("limits", "tune", "agreed"),
    [
        (OURS, (50, 131072, 60), (8192, 50, 30)),
        (OURS, (0, 0, 0), (8192, 100, 30)),
        (UNLIMITED, (50, 131072, 60), (131072, 50, 60)),
        (UNLIMITED, (0, 0, 0), (0, 0, 0)),
        (OURS, (200, 4096, 10), (4096, 100, 10)),
    ],
)
def test_a_client_answers_with_the_smaller_limits(
    limits: ConnectionLimits, tune: tuple[int, int, int], agreed: tuple[int, int, int]
) -> None:
    assert answer(limits, ConnectionTune(*tune)) == NegotiatedLimits(*agreed)


@pytest.mark.parametrize(
    ("limits", "tune", "agreed"),
    [
        (OURS, (100, 8192, 30), (8192, 100, 30)),
        (OURS, (50, 4096, 600), (4096, 50, 600)),  # the client chooses the heartbeat
        (OURS, (0, 0, 0), (8192, 100, 0)),
        (UNLIMITED, (65535, 1 << 30, 5), (1 << 30, 65535, 5)),
    ],
)
def test_a_server_accepts_limits_up_to_its_own(
    limits: ConnectionLimits, tune: tuple[int, int, int], agreed: tuple[int, int, int]
) -> None:
    assert accept(limits, ConnectionTuneOk(*tune)) == NegotiatedLimits(*agreed)


@pytest.mark.parametrize("tune", [(101, 8192, 0), (100, 8193, 0), (100, 4095, 0), (100, 1, 0)])
def test_a_server_refuses_limits_above_its_own_and_frames_below_the_minimum(tune: tuple[int, int, int]) -> None:
    with pytest.raises(NotAllowed):
        accept(OURS, ConnectionTuneOk(*tune))


def test_a_client_refuses_frames_below_the_minimum() -> None:
    with pytest.raises(NotAllowed):
        answer(OURS, ConnectionTune(0, 4095, 0))


@pytest.mark.parametrize(
    ("properties", "capabilities"),
    [
        ({}, set()),
        ({"capabilities": None}, set()),
        ({"capabilities": ["basic.nack"]}, set()),
        ({"capabilities": {"basic.nack": True, "publisher_confirms": False, "per_consumer_qos": 1}}, {"basic.nack"}),
    ],
)
def test_capabilities_are_names_that_are_true(properties: dict[str, Any], capabilities: set[str]) -> None:
    assert capabilities_of(properties) == capabilities
