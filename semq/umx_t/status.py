"""The statuses of rows, as they stand in the database: climb only, never renumbered, never reused.

See PROTOCOL.md section 16.

The enums are disjoint on purpose: equal IntEnums would collide as keys of one dictionary.
"""

from semq.umx_t.word import Status


class SendStatus(Status):
    """``ss_status`` of a row of tb_0031 (seed 3)."""

    SS_INIT = 10  #: accepted and committed, not sent (or to be sent again)
    SS_SENT = 20  #: sent, nothing heard yet
    SS_ACK_FWD = 30  #: the platform forwarded it and takes no further part
    SS_ACK = 40  #: a platform store holds it (custody)
    SS_ACK2 = 50  #: the receiver recorded it


class Outcome(Status):
    """How a message ended at its sender; final, never changes."""

    DELIVERED = 110  #: the receiver recorded it (ss_status is SS_ACK2)
    REJECTED = 120  #: the responsible party refused it; the body is kept at the sender
    CANCELLED = 130  #: its void marker took its place before the payload arrived
    LOST = 140  #: payload given away for custody, the custodian lost it, and the receiver's ledger has not got it
    UNKNOWN = 150  #: class 1 and 2, or a row that came back from a backup after it had been settled
    DROPPED = 160  #: class 1, the target was offline


class AckStatus(Status):
    """``p_ack_status`` and ``s_ack_status`` of a row of tb_0030 (seed 3)."""

    AS_INIT = 210  #: our acknowledgement is not yet known to be noted
    AS_ACK = 220  #: the other side has noted our acknowledgement


class AppStatus(Status):
    """How far the application is with a received document."""

    NEW = 310  #: not yet done by the application
    DONE = 320  #: the application has it for good
    PARKED = 330  #: set aside for a person, by its application, by somebody or because it cannot be read


class Arrival(Status):
    """What the receiver's ledger says of a message; its answer to everybody who asks."""

    NOT = 400  #: never recorded here
    RECV = 410  #: recorded, payload kept for the application
    REJ = 420  #: recorded as refused (unreadable, not opened, not accepted)
    VOID = 430  #: a void marker came first: the payload will never be taken
    SETTLED = 440  #: below the floor: its sender has long known the outcome


class SaveFwd(Status):
    """@SaveFwd: what happens when the target is offline (seed 2.2)."""

    DROP = 1
    STORE = 2
    MUST = 3


class Direction(Status):
    """Whose row of tb_0031 it is: one uniform queue for all (seed 5.2)."""

    OWN = 510  #: accepted from an application of this node
    RELAYED = 520  #: held by the platform for an absent node


# What the receiver says, and the outcome it gives to the sender's row (S5); VOID is LOST for a row that gave its
# payload away.
OUTCOME_OF = {
    Arrival.RECV: Outcome.DELIVERED,
    Arrival.REJ: Outcome.REJECTED,
    Arrival.VOID: Outcome.CANCELLED,
    Arrival.SETTLED: Outcome.UNKNOWN,
}
