"""Errors of the demo, codes 2300–2399."""

from semq.errors import BadInput, SemqError, Unavailable


class NoDocuments(BadInput):
    """There are no documents to send."""

    code = "SEMQ-2301"
    remedy = "Name a folder that contains files: ./run demo --documents FOLDER."


class NodeNotStarted(Unavailable):
    """A node of the demo did not start."""

    code = "SEMQ-2302"
    remedy = "The last lines of its log are shown above; with --keep the whole log stays in the folder of the demo."


class TookTooLong(Unavailable):
    """A step of the demo did not finish in time."""

    code = "SEMQ-2303"
    remedy = "The table shows how far each document has come; a slow machine needs a longer --patience."


class ReconciliationFailed(SemqError):
    """A command of the reconciliation failed."""

    code = "SEMQ-2304"
