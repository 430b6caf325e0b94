"""The status tables of PROTOCOL.md section 5 as text grids: the next state and the deed for each event of a message.

Lines are events, columns are states, which climb to the right; a message returns to SS_INIT only to be sent again, as
it is or as a void marker. A dot keeps the state: late and repeated events change nothing. Column SS_INIT accepts
evidence, too, because a crash between a send and the commit that records it leaves SS_INIT (rule N29).

The engine evaluates guards that need more than the state, for instance an equal attempt or a nonce. It ignores an event
whose guard fails, or chooses another event (``not_here_bare`` instead of ``not_here``).
"""

from semq.umx_t.grid import Grid
from semq.umx_t.status import AckStatus, AppStatus, Arrival
from semq.umx_t.word import Word

# ---------------------------------------------------------------------------------------------------------------- sender


class SenderState(Word):
    """States of a row of tb_0031 at its sender. GONE and AWAY are stored as SS_ACK."""

    ABSENT = "no row: it has ended and was deleted"
    SS_INIT = "accepted, not sent (or to be sent again)"
    SS_SENT = "sent, no answer yet"
    SS_ACK_FWD = "forwarded by the hub, which takes no further part"
    SS_ACK = "held by a store of the hub"
    GONE = "the custodian no longer has it: delivered, or lost with its store"
    AWAY = "the custodian has been unreachable for too long"
    SS_ACK2 = "recorded by the receiver"
    REJECTED = "refused by the receiver or the hub"
    CANCELLED = "cancelled before it arrived"
    LOST = "lost with a store of the hub that had custody"
    UNKNOWN = "its outcome cannot be known"
    DROPPED = "discarded, because the target was offline"
    FINAL = "ended with any outcome"


class SenderEvent(Word):
    """Events of a sender's row, with the event numbers of PROTOCOL.md section 5.1."""

    claim = "S2: the link is up and the window is open"
    fwd = "S3: Ack-Fwd with flag 1 for this attempt"
    fwd_failed = "S3b: Ack-Fwd with flag 4 for this attempt"
    discarded = "Ack-Fwd with flag 3: the target is offline and the class is 1"
    save = "S4: Ack-Save, or the answer CUSTODY"
    recv = "S5: the receiver recorded it"
    corrected = "S5c: the receiver recorded it, but the row had ended on information from the hub alone"
    rej = "S5: the receiver refused it"
    void = "S5: the void marker was recorded instead; the outcome may also be LOST, REJECTED or UNKNOWN (below)"
    settled = "S5: the receiver has deleted its entry, which is below the floor"
    refused = "section 18: the hub refused the only copy ever sent"
    refused_again = "section 18: the hub refused it, but an earlier copy may have arrived, or an order must be kept"
    returned = "S15: an operator of the hub has refused the copy that it held"
    returned_marker = (
        "S15: an operator of the hub has refused the void marker, because no target exists that could answer it"
    )
    returned_late = "S15: an operator of the hub has refused a copy of the payload, but the row is a void marker now"
    gone = "S6: the custodian no longer has the copy"
    unavail = "S7: the custodian has been unreachable for T_cust"
    not_here = "S8: the receiver does not have it, and this node can send it again"
    not_here_bare = "S8: the receiver does not have it, and this node has deleted the payload"
    offline = "S9: the hub has no copy and the receiver is offline"
    resend = (
        "an operator requests another copy, or S16: it gets a new signature; sending again is always safe (section 1)"
    )
    cancel = "S10: cancelled or expired"
    ask = "S11, S12: the interval has passed"
    give_up = (
        "class 1 and 2: four answers without an outcome, or the hub refused it and an earlier copy may have arrived; "
        "class 3: an operator has cancelled it, and no target exists"
    )


class SenderDeed(Word):
    """Actions of a sender in addition to changing the row."""

    send = "send the message"
    wake = "look for unsent rows of this destination"
    custody = "record the custodian; delete the payload unless a receipt was requested"
    reack2 = "answer ReAck2 with the floors"
    ask_target = "send Inquiry S to the receiver"
    ask_custodian = "send Inquiry S to the hub's store that holds the copy"
    make_void = "replace the payload by a void marker"
    give_up = "send a void marker, which competes with the payload to be recorded first by the receiver (rule N11)"
    refuse = "send a void marker, but keep reason and payload: the outcome is REJECTED unless an earlier copy arrived"
    returned = "the same as `refuse`, and answer ReAck, so that the hub may delete its row"
    reack = "answer ReAck, so that the hub may delete its row"


SENDER = Grid(
    """
class3          ABSENT    SS_INIT           SS_SENT           SS_ACK_FWD        SS_ACK            GONE              AWAY              FINAL
claim           !         SS_SENT:send      !                 !                 .                 !                 !                 .
fwd             !         .                 SS_ACK_FWD        .                 .                 .                 .                 .
fwd_failed      !         .                 SS_INIT:wake      SS_INIT:wake      .                 .                 .                 .
discarded       !         !                 !                 !                 !                 !                 !                 !
save            !         SS_ACK:custody    SS_ACK:custody    SS_ACK:custody    .:custody         SS_ACK:custody    SS_ACK:custody    .
recv            .:reack2  SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    .:reack2
corrected       !         !                 !                 !                 !                 !                 !                 SS_ACK2:reack2
rej             .:reack2  REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   .:reack2
void            .:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  .:reack2
settled         .:reack2  UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    .:reack2
refused         !         .                 REJECTED          .                 .                 .                 .                 .
refused_again   !         .                 SS_INIT:refuse    .                 .                 .                 .                 .
returned        .:reack   SS_INIT:returned  SS_INIT:returned  SS_INIT:returned  SS_INIT:returned  SS_INIT:returned  SS_INIT:returned  .:reack
returned_marker !         UNKNOWN:reack     UNKNOWN:reack     UNKNOWN:reack     UNKNOWN:reack     UNKNOWN:reack     UNKNOWN:reack     .:reack
returned_late   !         .:reack           .:reack           .:reack           .:reack           .:reack           .:reack           .:reack
gone            !         .                 .                 .                 GONE:ask_target   .:ask_target      GONE:ask_target   .
unavail         !         .                 .                 .                 AWAY:ask_target   .                 .:ask_target      .
not_here        !         .                 SS_INIT:wake      SS_INIT:wake      .                 SS_INIT:wake      SS_INIT:wake      .
not_here_bare   !         !                 !                 !                 .                 SS_INIT:give_up   !                 .
offline         !         .                 SS_INIT:wake      SS_INIT:wake      .                 .                 SS_INIT:wake      .
resend          !         .                 SS_INIT:wake      SS_INIT:wake      SS_INIT:wake      SS_INIT:wake      SS_INIT:wake      !
cancel          !         SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void !
ask             !         .                 .:ask_target      .:ask_target      .:ask_custodian   .:ask_target      .:ask_target      !
give_up         !         !                 UNKNOWN           !                 !                 !                 !                 !
""",
    SenderState,
    SenderEvent,
    SenderDeed,
)

# Rows of classes 1 and 2 exist only while a receipt is pending, those of class 2 also while the node's link is down.
# Nothing is sent twice (rule N22), so events from outside reach SS_INIT only in a row restored from a backup.
SENDER_12 = Grid(
    """
class12         SS_INIT           SS_SENT           SS_ACK_FWD        SS_ACK            FINAL
claim           SS_SENT:send      !                 !                 .                 .
fwd             !                 SS_ACK_FWD        .                 .                 .
fwd_failed      !                 .                 .                 .                 .
discarded       !                 DROPPED           DROPPED           .                 .
save            SS_ACK:custody    SS_ACK:custody    SS_ACK:custody    .:custody         .
recv            SS_ACK2           SS_ACK2           SS_ACK2           SS_ACK2           .
corrected       !                 !                 !                 !                 SS_ACK2
rej             REJECTED          REJECTED          REJECTED          REJECTED          .
void            !                 !                 !                 !                 !
settled         !                 !                 !                 !                 !
refused         !                 REJECTED          .                 .                 .
refused_again   !                 !                 !                 !                 !
returned        UNKNOWN:reack     UNKNOWN:reack     UNKNOWN:reack     UNKNOWN:reack     .:reack
returned_marker !                 !                 !                 !                 !
returned_late   !                 !                 !                 !                 !
gone            !                 !                 !                 !                 !
unavail         !                 !                 !                 !                 !
not_here        !                 !                 !                 !                 !
not_here_bare   !                 !                 !                 !                 !
offline         !                 !                 !                 !                 !
resend          .                 .                 .                 .                 !
cancel          CANCELLED         .                 .                 .                 !
ask             !                 .:ask_target      .:ask_target      .:ask_target      !
give_up         !                 UNKNOWN           UNKNOWN           UNKNOWN           !
""",
    SenderState,
    SenderEvent,
    SenderDeed,
)

# ------------------------------------------------------------------------------------------------------------------- hub


class CopyState(Word):
    """States of a row of tb_0031 in a store of the hub."""

    ABSENT = "no row for this message"
    SS_INIT = "stored, to be sent when the target is online"
    SS_SENT = "sent to the target, awaiting its Ack"
    REFUSED = "refused by an operator; its sender has not noted it yet"


class HubEvent(Word):
    """Events of a stored message, with the event numbers of PROTOCOL.md section 5.2."""

    store = "H4: a message that cannot be forwarded at once"
    again = "H1: a message whose identity is in the store already"
    replace = "H1: a void marker for a stored payload"
    claim = "H5: the target is online and its window is open"
    ack = "H6: the receiver's Ack (or Inquiry R), and the identity is that of the row"
    ack_other = "H6: an Ack whose identity is not that of the row (rule N13)"
    held = "H11: the receiver answers that it has recorded it"
    not_here = "H12: the receiver answers NOT to this attempt's inquiry"
    inquired = "H7, H8: the sender asks the target"
    asked = "H9: the sender asks the store that holds the copy"
    ask = "H10, H16: the interval has passed"
    refuse = "H16: an operator refuses it"
    noted = "H17: its sender has noted the refusal"
    resend = "H18: an operator requests that it be sent again now"


class HubDeed(Word):
    """Actions of the hub in addition to changing the row; frames leave after the commit."""

    insert = "store the message, answer Ack-Save with the locator of the row"
    ack_save = "answer Ack-Save; raise an alarm if the bytes differ under the same identity"
    replace = "put the void marker in the payload's place, answer Ack-Save, look for unsent rows of this destination"
    send = "count the attempt, send the message with LK1, but without its payload if it has expired"
    wake = "look for unsent rows of this destination"
    reack = "answer ReAck"
    custody = "answer CUSTODY with the locator of the row"
    gone = "answer GONE"
    pass_on = "relay to the receiver, or answer OFFLINE"
    ask_target = "send Inquiry P to the receiver, if it is online"
    refuse = "drop the payload, keep the operator's reason, notify the sender"
    refusal = "notify the sender, if it is online, with the operator's reason"


HUB = Grid(
    """
hub         ABSENT              SS_INIT             SS_SENT             REFUSED
store       SS_INIT:insert      !                   !                   !
again       !                   .:ack_save          .:ack_save          .:refusal
replace     !                   SS_INIT:replace     SS_INIT:replace     SS_INIT:replace
claim       !                   SS_SENT:send        !                   !
ack         .:reack             ABSENT:reack        ABSENT:reack        ABSENT:reack
ack_other   !                   .:reack             .:reack             .:reack
held        .                   ABSENT              ABSENT              ABSENT
not_here    .                   .                   SS_INIT:wake        .
inquired    .:pass_on           .:custody           .:custody           .:refusal
asked       .:gone              .:custody           .:custody           .:refusal
ask         !                   .                   .:ask_target        .:refusal
refuse      .                   REFUSED:refuse      REFUSED:refuse      .:refusal
noted       .                   .                   .                   ABSENT
resend      .                   .:wake              SS_INIT:wake        .
""",
    CopyState,
    HubEvent,
    HubDeed,
)

# -------------------------------------------------------------------------------------------------------------- receiver


class ReceiverEvent(Word):
    """Events at the receiver's ledger; PROTOCOL.md section 5.3, R1 and R5."""

    payload = "a readable message"
    unreadable = "a message that cannot be opened, read or accepted"
    marker = "a void marker"
    inquiry = "an inquiry about the message"


class ReceiverDeed(Word):
    """Actions of the receiver at its ledger."""

    record = "insert ledger entry and row of tb_0030 in one transaction, then send Ack and Ack2"
    acknowledge = "send Ack and Ack2 with the ledger's entry"
    answer = "send Inquiry-Resp with the ledger's entry"


RECEIVER = Grid(
    """
receiver    NOT          RECV           REJ            VOID           SETTLED
payload     RECV:record  .:acknowledge  .:acknowledge  .:acknowledge  .:acknowledge
unreadable  REJ:record   !              !              !              !
marker      VOID:record  .:acknowledge  .:acknowledge  .:acknowledge  .:acknowledge
inquiry     .:answer     .:answer       .:answer       .:answer       .:answer
""",
    Arrival,
    ReceiverEvent,
    ReceiverDeed,
)


class OwedEvent(Word):
    """Events of one of the two acknowledgement statuses; PROTOCOL.md section 5.3, R3, R4, R7, R8."""

    reack = "ReAck or ReAck2"
    ask = "the interval has passed"
    blocked = "R8: the row waits for the previous message of its order key, which has not arrived"


class OwedDeed(Word):
    """Actions for an acknowledgement that may not have been noted."""

    inquire = "send Inquiry R: the message is recorded here; has this been noted?"


OWED = Grid(
    """
owed     AS_INIT     AS_ACK
reack    AS_ACK      .
ask      .:inquire   .
blocked  .:inquire   .:inquire
""",
    AckStatus,
    OwedEvent,
    OwedDeed,
)


class HandlingEvent(Word):
    """Events from the application or its connection; PROTOCOL.md section 5.3, R6, and section 12."""

    give = "a consumer is free and the order allows it"
    done = "the application acknowledged"
    back = "the application returned it, or its connection was lost"
    fail = "the application failed on it for the last time allowed"
    requeue = "an operator requeues it"


class HandlingDeed(Word):
    """Actions of the receiver in addition to changing the row."""

    give = "count the delivery in a commit of its own, then deliver (from the second delivery on as redelivered)"
    offer = "look for the next consumer"


HANDLING = Grid(
    """
handling  NEW         DONE      PARKED
give      .:give      !         !
done      DONE        .         DONE
back      .:offer     .         .
fail      PARKED      .         .
requeue   !           !         NEW:offer
""",
    AppStatus,
    HandlingEvent,
    HandlingDeed,
)

GRIDS = (SENDER, SENDER_12, HUB, RECEIVER, OWED, HANDLING)

# Actions of the engine beside the cells, printed in PROTOCOL.md section 5 below each grid.
EXCEPTIONS = tuple(
    line.split(None, 1)
    for line in """
class3    S1 and S2 in one transaction: a document that can leave at once is accepted in SS_SENT, without `claim`.
class3    CANCELLED is the outcome unless the row says LOST (it was given up), REJECTED (the marker came from a refusal or an expiry) or UNKNOWN (this store has no marker: it was restored from a backup).
class3    S5: an Inquiry-Resp names no row of the receiver, so it is not answered with ReAck2.
class12   A row of class 2 without a receipt is deleted when it is sent; a message of class 1 that cannot leave at once is DROPPED when it is accepted.
hub       H1: a payload that the hub must refuse (section 18) is not stored if it has no row.
hub       H2, H3, H14, H15: forwarded messages leave no row.
hub       H5: a row that was sent too often in one session of its target is parked, without `claim` (section 12).
hub       H6, H9: a copy in another store is answered from the list of retired stores.
hub       H7, H8: if nothing is stored for the target, no row is looked up.
receiver  An entry whose sender is not proved counts as NOT for a document whose sender is proved (section 21).
receiver  A copy of class 3 whose signer has no valid certificate any more (SEMQ-5214) is answered NOT; but if its digest is that of an entry, the entry is acknowledged.
handling  VOID and REJ rows without an order key are recorded in the state after `done` or `fail`; those with an order key reach it when it is their turn.
""".strip().splitlines()
)
