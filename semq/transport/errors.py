"""Errors of connections other than those that AMQP defines (semq.amqp.errors).

| below         | error          | meaning                                                     |
|---------------|----------------|-------------------------------------------------------------|
| Unavailable   | DialFailed     | no connection was made                                      |
| DialFailed    | NotTrusted     | one end does not trust the authority of the other end       |
| Unavailable   | LinkLost       | an open connection was lost                                 |
| Misconfigured | ForeignBroker  | the server at the address is another product than SEMQ      |
"""

from semq.errors import Misconfigured, Unavailable


class DialFailed(Unavailable):
    """The peer could not be reached, or the login was not completed."""

    code = "SEMQ-4910"
    remedy = "Check host, port and network; the facts name the address and the cause. Dialling again is safe."


class NotTrusted(DialFailed):
    """One end does not trust the authority that issued the certificate of the other end."""

    code = "SEMQ-4913"
    remedy = (
        "A hub may have changed its authority while this node was away (`semq hub ca show` there): ask its operator for"
        " a token and the fingerprint, and enrol again (`semq node enroll`). Documents in the node's queues are kept."
    )


class ForeignBroker(Misconfigured):
    """Another AMQP broker, not a SEMQ node, answers at this address."""

    code = "SEMQ-4912"
    remedy = "Compare host and port with amqp.port of the node; the broker may have taken its port."


class LinkLost(Unavailable):
    """The connection to the peer was lost; the outcome of unconfirmed messages is unknown."""

    code = "SEMQ-4911"
    remedy = "Connect again, and publish again what was not confirmed: with the same @Token it is accepted once."
