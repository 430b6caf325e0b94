"""Errors of the demo, codes 2300–2399."""

from semq.errors import BadInput, SemqError


class NoDocuments(BadInput):
    """There are no documents to send."""

    code = "SEMQ-2301"
    remedy = "Name a folder that contains files: ./run demo --documents FOLDER."


class ReconciliationFailed(SemqError):
    """A command of the reconciliation failed."""

    code = "SEMQ-2304"
