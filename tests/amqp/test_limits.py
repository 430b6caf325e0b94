"""The limits of a connection, and the refusal of values that are out of range."""

from typing import Any

import pytest

from semq.amqp import ConnectionLimits
from semq.amqp.errors import LocalMisuse
from semq.amqp.limits import ANY_SIZE


@pytest.mark.parametrize(
    "invalid",
    [
        {"frame_max": 4095},
        {"frame_max": 1 << 32},
        {"initial_frame_max": 4095},
        {"channel_max": 1 << 16},
        {"channel_max": -1},
        {"heartbeat": 1 << 16},
        {"body_max": -1},
        {"arriving_max": 10, "body_max": 11},
        {"table_depth": 257},
        {"handshake_s": -1.0},
    ],
)
def test_invalid_limits_are_misuse(invalid: dict[str, Any]) -> None:
    with pytest.raises(LocalMisuse):
        ConnectionLimits(**invalid)


def test_limits_of_zero_are_accepted() -> None:
    assert ConnectionLimits(frame_max=0, channel_max=0, heartbeat=0).frame_max == 0


def test_only_bodies_in_one_piece_must_fit_into_arriving_max() -> None:
    assert ConnectionLimits(body_max=ANY_SIZE, stream_from=11, arriving_max=10).one_piece_max == 10
    assert ConnectionLimits(body_max=5, stream_from=11, arriving_max=5).one_piece_max == 5
    with pytest.raises(LocalMisuse):
        ConnectionLimits(body_max=ANY_SIZE, stream_from=12, arriving_max=10)
