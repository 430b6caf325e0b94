"""Errors about nodes, certificates, definitions, stores and the control database: codes 1250–1269.

``semq.pki.errors`` has the errors of keys and of single certificates.
"""

from semq.errors import BadInput, Misconfigured, Unavailable


class SecondStore(BadInput):
    """The node has another store than before."""

    code = "SEMQ-1250"
    # Short, because the node gets text, facts and remedy in the 255 bytes of a reply text.
    remedy = "If two nodes run, stop one. New database: `semq hub nodes rebind NODE`."


class NoSuchCertificate(BadInput):
    """The hub has issued no such certificate."""

    code = "SEMQ-1251"
    remedy = "`semq cert list` at the hub shows serial numbers and nodes."


class TooManyRenewals(Unavailable):
    """The node has used up its renewals for now."""

    code = "SEMQ-1254"
    remedy = "Find the reason for the repeated renewals in the log of the node; its present certificates stay valid."


class NoRoll(BadInput):
    """No change of the hub's authority is in progress."""

    code = "SEMQ-1256"
    remedy = "`semq hub ca show` shows the last change; `semq hub ca roll` begins a new one."


class DefinitionsRefused(BadInput):
    """The definitions are not put in force."""

    code = "SEMQ-1260"
    remedy = "Correct the file; `semq definitions export` shows the definitions that are in force."


class DefinitionsChanged(BadInput):
    """Other definitions are in force than those that were expected; nothing was imported."""

    code = "SEMQ-1261"
    remedy = (
        "`semq definitions diff FILE` compares with those in force and names their version N; if the file is still "
        "what you want, run `semq definitions import FILE --expect N`."
    )


class ControlOfAnotherHub(Misconfigured):
    """The control database belongs to another hub."""

    code = "SEMQ-1262"
    remedy = "Set cluster.control to the control database of this hub, or node.id to the hub that the database names."


class StoreNumberTaken(Misconfigured):
    """Another database already is the store with these numbers."""

    code = "SEMQ-1263"
    remedy = (
        "Two instances of one hub must not have the same node.semq_id and node.semq_db_id. If the database was made "
        "anew on purpose, retire the store and choose another node.semq_db_id."
    )


class StoreIsRetired(Misconfigured):
    """This store was declared permanently lost; the senders send its documents again, if they still have them."""

    code = "SEMQ-1267"
    remedy = "Start the instance with an empty database and another node.semq_db_id."


class OneStore(BadInput):
    """This hub has one store; institutions have no homes to move."""

    code = "SEMQ-1268"
    remedy = "Several stores need several instances: the operator's guide, *Several instances of one hub*."


class StoreServed(BadInput):
    """An instance of the hub serves this store, so it is not lost."""

    code = "SEMQ-1266"
    remedy = (
        "Move its homes away (`semq hub stores add STORE --weight 0`, then `balance`), wait until it holds nothing, "
        "end the instance, and retire the store 15 s later."
    )
