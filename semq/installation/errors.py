"""Errors of an installation, in the range of the demo, codes 2300–2399."""

from semq.errors import Unavailable


class NodeNotStarted(Unavailable):
    """A node of the installation did not start."""

    code = "SEMQ-2302"
    remedy = "The last lines of its log are shown above; ./run demo --keep keeps the whole log in its folder."
