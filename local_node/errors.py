"""Errors of requests to the hub (enrolment, renewal, trace) or to a partner (trace). Codes 2400–2409."""

from semq.errors import BadInput


class NoSuchFingerprint(BadInput):
    """The authority of the hub does not have this fingerprint; another program may answer in place of the hub."""

    code = "SEMQ-2401"
    remedy = (
        "A fingerprint has 64 hexadecimal digits: ask the hub's operator by telephone (`semq cert trust` there). "
        "The token was not sent."
    )


class RefusedByPeer(BadInput):
    """The hub, or a partner, refused the request."""

    code = "SEMQ-2402"
    remedy = (
        "Look at the reason, here and in the log of the node that refused. If the hub refuses this node's certificate "
        "(`semq cert show`), enrol again (`semq node enroll`) with a new token (`semq hub nodes token ID` at the hub)."
    )
