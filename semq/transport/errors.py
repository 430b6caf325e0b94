"""What can go wrong between two sockets, beyond what AMQP itself says (semq.amqp.errors).

Unavailable
├── DialFailed      no connection came about
└── LinkLost        a connection that was open is gone
"""

from semq.errors import Unavailable


class DialFailed(Unavailable):
    """The peer could not be reached, or the login did not come to an end."""

    code = "SEMQ-4910"
    remedy = "Check host, port and network; the facts name the address and the cause. Dialling again is safe."


class LinkLost(Unavailable):
    """The connection to the peer is gone; whatever was not confirmed is in doubt."""

    code = "SEMQ-4911"
    remedy = "Dial again; unconfirmed messages must be offered again by whoever owns them."
