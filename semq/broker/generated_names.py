"""Names that the server generates for clients, in RabbitMQ's forms.

Clients match on these forms. Used by ``channel``: ``commands`` (queues), ``consumption`` (consumer tags) and
``reply_targets`` (addresses of direct replies).
"""

import base64

from semq.clock import Clock

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = REPLY_TO + "."  # beginning of the address of a channel that waits for direct replies


def generated_name(prefix: str, clock: Clock) -> str:
    """Return ``prefix`` and 22 unpredictable characters."""
    return prefix + _letters(clock).rstrip("=")


def reply_address(clock: Clock) -> str:
    """Return an address for direct replies: after REPLY_PREFIX two texts joined by a dot, the second with the padding
    of base64.
    """
    return f"{generated_name(REPLY_PREFIX, clock)}.{_letters(clock)}"


def _letters(clock: Clock) -> str:
    return base64.urlsafe_b64encode(clock.uuid().bytes).decode()
