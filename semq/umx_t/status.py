"""The statuses of rows, as stored in the database (PROTOCOL.md section 16).

Statuses move to higher numbers (``grids`` has the exceptions). Numbers are never changed or reused. The enums are
disjoint, because equal IntEnums would collide as keys of one dictionary.
"""

from semq.umx_t.word import Status


class SendStatus(Status):
    """``ss_status`` of a row of tb_0031."""

    SS_INIT = 10  #: accepted and committed, to be sent
    SS_SENT = 20  #: no answer yet
    SS_ACK_FWD = 30  #: the hub forwarded it, without custody
    SS_ACK = 40  #: a store of the hub holds it (custody)
    SS_ACK2 = 50  #: the receiver recorded it


class Outcome(Status):
    """The outcome of a message at its sender. It is final, with one exception: REJECTED or DROPPED, if only the hub has
    reported it, becomes DELIVERED when the receiver reports that it has recorded the message (S5c).
    """

    DELIVERED = 110  #: the receiver recorded it (SS_ACK2)
    REJECTED = 120  #: the receiver or the hub refused it, or it expired; the body is kept at the sender
    #: class 3: the receiver recorded the void marker, not the payload; class 1 and 2: cancelled before it was sent
    CANCELLED = 130
    #: the sender deleted the payload after custody, the custodian lost it, and the receiver has not recorded it
    LOST = 140
    #: class 1 and 2: no answer tells the outcome, or the hub's operator refused the copy; class 3: settled before the
    #: sender's row was restored from a backup, or the void marker was refused (S15)
    UNKNOWN = 150
    DROPPED = 160  #: class 1, the target was offline


class AckStatus(Status):
    """``p_ack_status`` and ``s_ack_status`` of a row of tb_0030."""

    AS_INIT = 210  #: hub or sender may not have this node's acknowledgement
    AS_ACK = 220  #: hub or sender has it


class AppStatus(Status):
    """The state of a received document at the application."""

    NEW = 310  #: not acknowledged
    #: acknowledged by the application, removed by an operator, or not for an application (void marker, piece, refused)
    DONE = 320
    PARKED = 330  #: waits for an operator: parked by the application or an operator, or not readable


class Arrival(Status):
    """Status in the receiver's ledger (RECV, REJ, VOID), or answer to an inquiry (all of them)."""

    NOT = 400  #: never recorded here
    RECV = 410  #: recorded, payload kept for the application
    REJ = 420  #: recorded as refused
    VOID = 430  #: a void marker came first: the payload will never be accepted
    SETTLED = 440  #: entry deleted, because its position is below the floor


class SaveFwd(Status):
    """@SaveFwd, the delivery class."""

    DROP = 1  #: discarded if the target is offline
    STORE = 2  #: stored by the hub if the target is offline
    MUST = 3  #: delivered despite any failure


class Direction(Status):
    """The origin of a row of tb_0031."""

    OWN = 510  #: accepted from an application of this node
    RELAYED = 520  #: a copy at the hub
