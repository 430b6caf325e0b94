"""Names that the server generates for clients, in RabbitMQ's forms.

Clients match on these forms. Used by ``channel``: ``commands`` (queues), ``consumption`` (consumer tags) and
``reply_targets`` (addresses of direct replies).
"""

import base64

from semq.clock import Clock


def generated_name(prefix: str, clock: Clock) -> str:
    """Return ``prefix`` and 22 unpredictable characters."""
    return prefix + _letters(clock).rstrip("=")


def reply_suffix(clock: Clock) -> str:
    """Return the part of an address after ``amq.rabbitmq.reply-to.``: two texts joined by a dot, the second with the
    padding of base64.
    """
    return f"{generated_name('', clock)}.{_letters(clock)}"


def _letters(clock: Clock) -> str:
    return base64.urlsafe_b64encode(clock.uuid().bytes).decode()
