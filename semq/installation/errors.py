"""Errors of an installation, with codes of the range of the demo, 2300–2399."""

from semq.errors import BadInput, Unavailable


class NodeNotStarted(Unavailable):
    """A node of the installation did not start."""

    code = "SEMQ-2302"
    remedy = "The fact `log` has the last lines of its log; the option --keep of the demo keeps the complete log."


class FolderHasNode(BadInput):
    """The folder has the configuration of a node already; nothing was written."""

    code = "SEMQ-2303"
    remedy = "Name another folder, or start the node: `semq node run --config FILE`."
