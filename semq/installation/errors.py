"""Errors of an installation, with codes of the range of the demo, 2300–2399."""

from semq.errors import Unavailable


class NodeNotStarted(Unavailable):
    """A node of the installation did not start."""

    code = "SEMQ-2302"
    remedy = "The fact `log` has the last lines of its log; ./run demo --keep keeps the complete log."
