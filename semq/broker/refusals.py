"""The refusals of the broker: one function for each sentence, with the error class that carries the reply code. Pure.

The codes are those of AMQP 0-9-1 (4.8 and the rules of each method). The sentences are RabbitMQ's where it has one,
because client libraries and their users recognise them.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal

from semq.amqp import errors as amqp
from semq.amqp.wire import Timestamp
from semq.errors import BadInput

_Refusal = Callable[..., amqp.AmqpError]


def _refusal(error_class: type[amqp.AmqpError], sentence: str) -> _Refusal:
    return lambda *facts: error_class(sentence.format(*facts))


no_exchange = _refusal(amqp.NotFound, "no exchange '{}' in vhost '{}'")
no_queue = _refusal(amqp.NotFound, "no queue '{}' in vhost '{}'")
no_last_queue = _refusal(amqp.NotFound, "no previously declared queue")

locked = _refusal(
    amqp.ResourceLocked,
    "cannot obtain exclusive access to locked queue '{}' in vhost '{}'. It could be originally declared on another"
    " connection or the exclusive property value does not match that of the original declaration.",
)

body_too_large = _refusal(amqp.ContentTooLarge, "a body of {} bytes exceeds {} for '{}'")
login_refused = _refusal(
    amqp.AccessRefused,
    "Login was refused using authentication mechanism {}. For details see the broker logfile.",
)
forbidden = _refusal(amqp.AccessRefused, "access to {} '{}' in vhost '{}' refused for user '{}'")
reduced_permissions = _refusal(amqp.AccessRefused, "the permissions of user '{}' have been reduced: connect again")
reserved = _refusal(amqp.AccessRefused, "{} name '{}' contains reserved prefix 'amq.*'")
system_exchange = _refusal(amqp.AccessRefused, "deletion of system exchange '{}' in vhost '{}' not allowed")
default_exchange = _refusal(amqp.AccessRefused, "operation not permitted on the default exchange")
belongs_to_node = _refusal(amqp.AccessRefused, "{} '{}' in vhost '{}' belongs to the node: {}")
internal_exchange = _refusal(amqp.AccessRefused, "cannot publish to internal exchange '{}' in vhost '{}'")
exclusive_use = _refusal(amqp.AccessRefused, "queue '{}' in vhost '{}' in exclusive use")

in_use = _refusal(amqp.PreconditionFailed, "{} '{}' in vhost '{}' in use")
not_empty = _refusal(amqp.PreconditionFailed, "queue '{}' in vhost '{}' not empty")
bad_argument = _refusal(amqp.PreconditionFailed, "invalid arg '{}' for {} '{}' in vhost '{}': {}")
bad_argument_type = _refusal(amqp.PreconditionFailed, "invalid type '{}' for arg '{}' in {} '{}' in vhost '{}'")
bad_request = _refusal(amqp.PreconditionFailed, "{}")
IN_PIECES = "documents in pieces are stored"
no_transaction = _refusal(
    amqp.PreconditionFailed, "{} at once, so that they cannot be part of a transaction: use a channel without tx.select"
)
unknown_tag = _refusal(amqp.PreconditionFailed, "unknown delivery tag {}")
not_acknowledged = _refusal(
    amqp.PreconditionFailed, "delivery acknowledgement on channel {} timed out. Timeout value used: {} ms"
)
unknown_exchange_type = _refusal(amqp.PreconditionFailed, "unknown exchange type '{}'")

no_vhost = _refusal(amqp.NotAllowed, "vhost {} not found")
vhost_forbidden = _refusal(amqp.NotAllowed, "access to vhost '{}' refused for user '{}'")
reused_consumer_tag = _refusal(amqp.NotAllowed, "attempt to reuse consumer tag '{}'")
too_many = _refusal(amqp.NotAllowed, "{} limit ({}) is reached")

definitions_too_large = _refusal(amqp.ResourceError, "definitions of more than {} bytes in vhost '{}'")
not_implemented = _refusal(amqp.NotSupported, "{}")


def not_stored(error: BaseException) -> amqp.AmqpError:
    """Return the error for a change that the store did not make; if it refused it, only the channel closes."""
    kind = amqp.PreconditionFailed if isinstance(error, BadInput) else amqp.InternalError
    return kind(f"the store did not accept the change: {error}")


def of_message(error: amqp.AmqpError) -> amqp.AmqpError:
    """Return the error for a message with a bad content header: it closes the channel, not the connection."""
    return bad_request(f"invalid message: {error.text}") if isinstance(error, _BAD_CONTENT) else error


_BAD_CONTENT = (amqp.SyntaxFault, amqp.FrameError)


def inequivalent(argument: str, kind: str, name: str, vhost: str, received: object, current: object) -> amqp.AmqpError:
    """Return the error for a second declaration that differs from the first in this property."""
    return _inequivalent(argument, kind, name, vhost, f"'{_as_text(received)}'", f"'{_as_text(current)}'")


def inequivalent_argument(
    argument: str, kind: str, name: str, vhost: str, received: object, current: object
) -> amqp.AmqpError:
    """Return the error for a second declaration that differs from the first in this argument; None: absent."""
    if None not in (received, current) and field_type(received) == field_type(current):
        return inequivalent(argument, kind, name, vhost, received, current)
    return _inequivalent(argument, kind, name, vhost, _typed(received), _typed(current))


def _inequivalent(argument: str, kind: str, name: str, vhost: str, received: str, current: str) -> amqp.AmqpError:
    return amqp.PreconditionFailed(
        f"inequivalent arg '{argument}' for {kind} '{name}' in vhost '{vhost}':"
        f" received {received} but current is {current}"
    )


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(value: object) -> str:
    return "none" if value is None else f"the value '{_as_text(value)}' of type '{field_type(value)}'"


def field_type(value: object) -> str:
    """Return the type of a field value in RabbitMQ's terms."""
    if isinstance(value, int) and not isinstance(value, bool | Timestamp):
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    return next((name for kind, name in _FIELD_TYPES if isinstance(value, kind)), "void")


_FIELD_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (Timestamp, "timestamp"),
    (str, "longstr"),
    (bytes, "binary"),
    (float, "double"),
    (Decimal, "decimal"),
    (list, "array"),
    (Mapping, "table"),
)
