"""Errors of connections other than those that AMQP defines (semq.amqp.errors).

Unavailable ├── DialFailed      no connection was made └── LinkLost        an open connection was lost Misconfigured └──
ForeignBroker   the address belongs to another product
"""

from semq.errors import Misconfigured, Unavailable


class DialFailed(Unavailable):
    """The peer could not be reached, or the login was not completed."""

    code = "SEMQ-4910"
    remedy = "Check host, port and network; the facts name the address and the cause. Dialling again is safe."


class ForeignBroker(Misconfigured):
    """Another AMQP broker, not a SEMQ node, answers at this address."""

    code = "SEMQ-4912"
    remedy = "Compare host and port with amqp.port of the node; the broker may have taken its port."


class LinkLost(Unavailable):
    """The connection to the peer was lost; the outcome of unconfirmed messages is unknown."""

    code = "SEMQ-4911"
    remedy = "Connect again, and publish again what was not confirmed: with the same @Token it is accepted once."
