"""Negotiation of limits and capabilities. Pure.

The lower value applies; 0 means "no limit". A server uses the heartbeat that the client answers, even a higher one.
Source: AMQP 0-9-1, 2.2.4 and 4.2.3; the capabilities are RabbitMQ's.
"""

from typing import NamedTuple

from semq.amqp.errors import NotAllowed
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import ConnectionTune, ConnectionTuneOk
from semq.amqp.spec import FRAME_MIN_SIZE
from semq.amqp.wire import Table

SERVER_CAPABILITIES: Table = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}
CLIENT_CAPABILITIES: Table = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class NegotiatedLimits(NamedTuple):
    """The negotiated limits: bytes of a frame, highest channel number, heartbeat in seconds; 0 for no limit."""

    frame_max: int
    channel_max: int
    heartbeat: int


def lower_limit(ours: int, theirs: int) -> int:
    """Return the lower of two limits; 0 means no limit."""
    return min(ours, theirs) if ours and theirs else ours or theirs


def answer(limits: ConnectionLimits, tune: ConnectionTune) -> NegotiatedLimits:
    """Return a client's answer to the server's limits. Raises ``NotAllowed`` if frame-max is below the minimum."""
    _check_frame_max(tune)
    return NegotiatedLimits(
        lower_limit(limits.frame_max, tune.frame_max),
        lower_limit(limits.channel_max, tune.channel_max),
        lower_limit(limits.heartbeat, tune.heartbeat),
    )


def accept(limits: ConnectionLimits, answered: ConnectionTuneOk) -> NegotiatedLimits:
    """Return the limits after a client's answer. Raises ``NotAllowed`` if its frame-max or channel-max exceeds the
    offer, or its frame-max is below the minimum.
    """
    _check_frame_max(answered)
    for name in ("frame_max", "channel_max"):
        offered, chosen = getattr(limits, name), getattr(answered, name)
        if offered and chosen > offered:
            raise NotAllowed(f"{name} {chosen} exceeds the offered {offered}")
    return NegotiatedLimits(
        lower_limit(limits.frame_max, answered.frame_max),
        lower_limit(limits.channel_max, answered.channel_max),
        answered.heartbeat,
    )


def _check_frame_max(tune: ConnectionTune | ConnectionTuneOk) -> None:
    if 0 < tune.frame_max < FRAME_MIN_SIZE:
        raise NotAllowed(f"frame_max {tune.frame_max} is below the minimum of {FRAME_MIN_SIZE}")


def capabilities_of(properties: Table) -> frozenset[str]:
    """Return the capabilities that a peer announces as true."""
    announced = properties.get("capabilities")
    if not isinstance(announced, dict):
        return frozenset()
    return frozenset(name for name, value in announced.items() if value is True)
