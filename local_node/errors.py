"""What can go wrong when a node enrols or renews, beside what ``semq.pki.errors`` has. Codes 2400–2409."""

from semq.errors import BadInput


class NoSuchFingerprint(BadInput):
    """The hub has another authority than the fingerprint names: perhaps it is not the hub."""

    code = "SEMQ-2401"
    remedy = "Compare with `semq cert trust` at the hub, over a way that nobody can alter. No token was shown."


class RefusedByHub(BadInput):
    """The hub refused."""

    code = "SEMQ-2402"
    remedy = "The hub's log has the reason; a token serves once, for one node, for a limited time."
