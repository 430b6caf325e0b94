"""What can keep the demo from ending well. Codes 2300–2399."""

from semq.errors import BadInput, SemqError, Unavailable


class NoDocuments(BadInput):
    """There are no documents to send."""

    code = "SEMQ-2301"
    remedy = "Name a folder that holds files: ./run demo --documents FOLDER."


class WillNotStart(Unavailable):
    """One of the nodes of the demo does not start."""

    code = "SEMQ-2302"
    remedy = (
        "The last lines of its log stand above; the whole log lies in the folder of the demo (--keep leaves it there)."
    )


class TookTooLong(Unavailable):
    """Something in the demo did not happen in the time given."""

    code = "SEMQ-2303"
    remedy = "The table shows how far each document has come; a slow machine needs a longer --patience."


class NotReckoned(SemqError):
    """A command of the reconciliation did not end well."""

    code = "SEMQ-2304"
    remedy = "Its own words stand above; --keep leaves the folder of the demo, where it can be run again."
