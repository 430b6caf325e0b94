"""What the broker says when it says no: one row per sentence, with the class of error that carries the reply code.
Pure.

The codes are those of AMQP 0-9-1 (4.8 and the rules of each method), the sentences RabbitMQ's, because client libraries
and the people who use them recognise those. Each row is called with its facts in order and gives the error to raise;
``session`` adds class and method id. Used by ``vhost``, ``channel`` and the modules of methods.
"""

from collections.abc import Callable
from typing import Any

from semq.amqp import errors as amqp

_Refusal = Callable[..., amqp.AmqpError]


def _says(kind: type[amqp.AmqpError], sentence: str) -> _Refusal:
    return lambda *facts: kind(sentence.format(*facts))


no_exchange = _says(amqp.NotFound, "no exchange '{}' in vhost '{}'")
no_queue = _says(amqp.NotFound, "no queue '{}' in vhost '{}'")
no_last_queue = _says(amqp.NotFound, "no previously declared queue")

locked = _says(
    amqp.ResourceLocked,
    "cannot obtain exclusive access to locked queue '{}' in vhost '{}'. It could be originally declared on another"
    " connection or the exclusive property value does not match that of the original declaration.",
)

login_refused = _says(
    amqp.AccessRefused,
    "Login was refused using authentication mechanism {}. For details see the broker logfile.",
)
forbidden = _says(amqp.AccessRefused, "access to {} '{}' in vhost '{}' refused for user '{}'")
reserved = _says(amqp.AccessRefused, "{} name '{}' contains reserved prefix 'amq.*'")
default_exchange = _says(amqp.AccessRefused, "operation not permitted on the default exchange")
service = _says(amqp.AccessRefused, "{} '{}' in vhost '{}' belongs to the node: {}")
internal_exchange = _says(amqp.AccessRefused, "cannot publish to internal exchange '{}' in vhost '{}'")
exclusive_use = _says(amqp.AccessRefused, "queue '{}' in vhost '{}' in exclusive use")

in_use = _says(amqp.PreconditionFailed, "{} '{}' in vhost '{}' in use")
not_empty = _says(amqp.PreconditionFailed, "queue '{}' in vhost '{}' not empty")
bad_argument = _says(amqp.PreconditionFailed, "invalid arg '{}' for {} '{}' in vhost '{}': {}")
bad_request = _says(amqp.PreconditionFailed, "{}")
unknown_tag = _says(amqp.PreconditionFailed, "unknown delivery tag {}")

no_vhost = _says(amqp.NotAllowed, "vhost {} not found")
vhost_forbidden = _says(amqp.NotAllowed, "access to vhost '{}' refused for user '{}'")
reused_consumer_tag = _says(amqp.NotAllowed, "attempt to reuse consumer tag '{}'")
too_many = _says(amqp.NotAllowed, "{} limit ({}) is reached")

no_room = _says(amqp.ResourceError, "definitions of more than {} octets in vhost '{}'")
unknown_exchange_type = _says(amqp.CommandInvalid, "unknown exchange type '{}'")
not_implemented = _says(amqp.NotSupported, "{}")
not_stored = _says(amqp.InternalError, "the store did not accept the change")


def inequivalent(argument: str, kind: str, name: str, vhost: str, received: Any, current: Any) -> amqp.AmqpError:
    """A second declaration differs from the first in this argument."""
    return amqp.PreconditionFailed(
        f"inequivalent arg '{argument}' for {kind} '{name}' in vhost '{vhost}':"
        f" received {_shown(received)} but current is {_shown(current)}"
    )


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"
