"""Names that the server generates for clients, in RabbitMQ's forms. Clients match on these forms."""

import base64

from semq.clock import Clock

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = REPLY_TO + "."  # beginning of an address for direct replies


def generated_name(prefix: str, clock: Clock) -> str:
    """Return ``prefix`` and 22 unpredictable characters."""
    return prefix + _letters(clock).rstrip("=")


def reply_address(clock: Clock) -> str:
    """Return an address for direct replies: REPLY_PREFIX, and two unpredictable texts joined by a dot."""
    return f"{generated_name(REPLY_PREFIX, clock)}.{_letters(clock)}"


def _letters(clock: Clock) -> str:
    return base64.urlsafe_b64encode(clock.uuid().bytes).decode()
