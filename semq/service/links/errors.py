"""Errors about the logins of nodes at the listening end of links. Codes 1253 and 1255."""

from semq.errors import ProtocolViolation, Unavailable


class StoreStatementUnreadable(ProtocolViolation):
    """The statement of the node about its store or process at the login has the wrong form."""

    code = "SEMQ-1253"


class TooManyLogins(Unavailable):
    """The node logs in too often; it has to wait a few seconds."""

    code = "SEMQ-1255"
    remedy = (
        "Nothing is lost, the node logs in again by itself. Its log has the reason for the end of "
        "its link (`uplink_lost`); two processes with one identity are another cause."
    )
