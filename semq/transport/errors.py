"""What can go wrong between two sockets, beyond what AMQP itself says (semq.amqp.errors).

Unavailable
├── DialFailed      no connection came about
└── LinkLost        a connection that was open is gone
Misconfigured
└── ForeignBroker   the address is that of something else
"""

from semq.errors import Misconfigured, Unavailable


class DialFailed(Unavailable):
    """The peer could not be reached, or the login did not come to an end."""

    code = "SEMQ-4910"
    remedy = "Check host, port and network; the facts name the address and the cause. Dialling again is safe."


class ForeignBroker(Misconfigured):
    """Another AMQP broker answers at this address, and no node of SEMQ."""

    code = "SEMQ-4912"
    remedy = "Compare host and port with amqp.port of the node; the broker may have taken its port."


class LinkLost(Unavailable):
    """The connection to the peer is gone; whatever was not confirmed is in doubt."""

    code = "SEMQ-4911"
    remedy = "Connect again, and publish again what was not confirmed: with the same @Token it is accepted once."
