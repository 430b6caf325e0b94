"""What a node does on hearing news of a message: the status tables of PROTOCOL.md section 5 as text grids.

Rows are what we hear, columns are where we stand. Three things to see at once: the grids climb to the right and only a
``no`` of the responsible party goes back to SS_INIT; dots fill the lower right, late and repeated news is harmless by
construction; the SS_INIT column is not empty, for a crash between a send and what came of it leaves SS_INIT behind while
the world has moved on, so evidence is believed there too (rule R29).

Guards that need more than the standing (an equal attempt, a nonce, a payload that is still here) are evaluated by the caller,
who then hears ``stale`` news as nothing at all or picks the row of the grid that fits (``not_here`` or ``not_here_bare``).
"""

from semq.umx_t.grid import Grid
from semq.umx_t.word import Word

# ---------------------------------------------------------------------------------------------------------------- sender


class Standing(Word):
    """Where a row of tb_0031 stands at its sender. GONE and AWAY are SS_ACK with a custodian in doubt (volatile)."""

    SS_INIT = "accepted, not sent (or to be sent again)"
    SS_SENT = "sent, nothing heard yet"
    SS_ACK_FWD = "forwarded by the platform, which takes no further part"
    SS_ACK = "held by a platform store"
    GONE = "the custodian no longer has it: delivered, or lost with its store"
    AWAY = "the custodian has been out of reach for too long"
    SS_ACK2 = "recorded by the receiver"
    REJECTED = "refused by the responsible party"
    CANCELLED = "cancelled before it arrived"
    LOST = "lost with a platform store that had custody"
    UNKNOWN = "its end cannot be known"
    DROPPED = "discarded, the target was offline"
    FINAL = "ended, in whichever way"


class Heard(Word):
    """News for a sender's row; the numbers are those of PROTOCOL.md section 5.1."""

    claim = "S2: the link is up and the window is open"
    fwd = "S3: Ack-Fwd with flag 1 for this attempt"
    fwd_failed = "S3b: Ack-Fwd with flag 4 for this attempt"
    discarded = "Ack-Fwd with flag 3: the target is offline and the class is 1"
    save = "S4: Ack-Save, or the answer CUSTODY"
    recv = "S5: the receiver recorded it"
    corrected = "S5c: the receiver recorded it, and it had ended by the platform's word alone"
    rej = "S5: the receiver refused it"
    void = "S5: the void marker took its place; LOST, REJECTED or UNKNOWN by what the row says the marker came of"
    settled = "S5: the receiver has forgotten it, as one does below the floor"
    refused = "section 18: the platform refused the only copy ever sent"
    refused_again = "section 18: the platform refused it, and an earlier copy may have arrived, or an order be kept"
    returned = "S15: the platform's operator has refused the copy that it held"
    returned_marker = "S15: the platform's operator has refused our marker: there is no target that could answer it"
    gone = "S6: the custodian has no such copy any more"
    unavail = "S7: the custodian has been out of reach for T_cust"
    not_here = "S8: the receiver has not got it, and we can send it again"
    not_here_bare = "S8: the receiver has not got it, and our payload was given away"
    offline = "S9: the platform has no copy and the receiver is offline"
    resend = "a person asks for another copy, or S16: it is signed anew; sending again is always safe (section 1)"
    cancel = "S10: cancelled or expired"
    ask = "S11, S12: the interval has passed"
    give_up = (
        "nobody knows: four inquiries of class 1 and 2; class 3: a person has cancelled it, and there is no target"
    )


class SenderDeed(Word):
    """What a sender does besides changing the row."""

    send = "send the message"
    wake = "look for unsent rows of this destination"
    custody = "note the custodian; without a receipt asked for, drop the payload"
    reack2 = "answer ReAck2 with the floors"
    ask_target = "Inquiry S to the receiver"
    ask_custodian = "Inquiry S to the platform store that holds the copy"
    make_void = "replace the payload by a void marker"
    give_up = "let a void marker race for the place in the receiver's ledger (rule R11)"
    refuse = "let a void marker race, and keep reason and payload: the end is REJECTED unless an earlier copy arrived"


SENDER = Grid(
    """
class3          SS_INIT           SS_SENT           SS_ACK_FWD        SS_ACK            GONE              AWAY              FINAL
claim           SS_SENT:send      !                 !                 .                 !                 !                 .
fwd             .                 SS_ACK_FWD        .                 .                 .                 .                 .
fwd_failed      .                 SS_INIT:wake      SS_INIT:wake      .                 .                 .                 .
discarded       !                 !                 !                 !                 !                 !                 !
save            SS_ACK:custody    SS_ACK:custody    SS_ACK:custody    .:custody         SS_ACK:custody    SS_ACK:custody    .
recv            SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    SS_ACK2:reack2    .:reack2
corrected       !                 !                 !                 !                 !                 !                 SS_ACK2:reack2
rej             REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   REJECTED:reack2   .:reack2
void            CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  CANCELLED:reack2  .:reack2
settled         UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    UNKNOWN:reack2    .:reack2
refused         .                 REJECTED          .                 .                 .                 .                 .
refused_again   .                 SS_INIT:refuse    .                 .                 .                 .                 .
returned        SS_INIT:refuse    SS_INIT:refuse    SS_INIT:refuse    SS_INIT:refuse    SS_INIT:refuse    SS_INIT:refuse    .
returned_marker UNKNOWN           UNKNOWN           UNKNOWN           UNKNOWN           UNKNOWN           UNKNOWN           .
gone            .                 .                 .                 GONE:ask_target   .:ask_target      GONE:ask_target   .
unavail         .                 .                 .                 AWAY:ask_target   .                 .:ask_target      .
not_here        .                 SS_INIT:wake      SS_INIT:wake      .                 SS_INIT:wake      SS_INIT:wake      .
not_here_bare   !                 !                 !                 .                 SS_INIT:give_up   !                 .
offline         .                 SS_INIT:wake      SS_INIT:wake      .                 .                 SS_INIT:wake      .
resend          .                 SS_INIT:wake      SS_INIT:wake      SS_INIT:wake      SS_INIT:wake      SS_INIT:wake      !
cancel          SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void SS_INIT:make_void !
ask             .                 .:ask_target      .:ask_target      .:ask_custodian   .:ask_target      .:ask_target      !
give_up         !                 UNKNOWN           !                 !                 !                 !                 !
""",
    Standing,
    Heard,
    SenderDeed,
)

# Rows of class 1 and 2 exist only while a receipt is owed, or class 2 while our own link is down; nothing is ever resent
# (rule R22). So nothing is heard of a row in SS_INIT, unless it came back from a backup; an answer of somebody who does not
# know is counted, and heard as ``give_up``; and there are neither void markers nor floors.
SENDER_12 = Grid(
    """
class12         SS_INIT           SS_SENT           SS_ACK_FWD        SS_ACK            FINAL
claim           SS_SENT:send      !                 !                 .                 .
fwd             !                 SS_ACK_FWD        .                 .                 .
fwd_failed      !                 .                 .                 .                 .
discarded       !                 DROPPED           DROPPED           .                 .
save            SS_ACK            SS_ACK            SS_ACK            .                 .
recv            SS_ACK2           SS_ACK2           SS_ACK2           SS_ACK2           .
corrected       !                 !                 !                 !                 SS_ACK2
rej             REJECTED          REJECTED          REJECTED          REJECTED          .
void            !                 !                 !                 !                 !
settled         !                 !                 !                 !                 !
refused         !                 REJECTED          .                 .                 .
refused_again   !                 !                 !                 !                 !
returned        UNKNOWN           UNKNOWN           UNKNOWN           UNKNOWN           .
returned_marker !                 !                 !                 !                 !
gone            !                 !                 !                 !                 !
unavail         !                 !                 !                 !                 !
not_here        !                 !                 !                 !                 !
not_here_bare   !                 !                 !                 !                 !
offline         !                 !                 !                 !                 !
resend          .                 .                 .                 .                 !
cancel          CANCELLED         .                 .                 .                 !
ask             !                 .:ask_target      .:ask_target      .:ask_target      !
give_up         !                 UNKNOWN           UNKNOWN           UNKNOWN           .
""",
    Standing,
    Heard,
    SenderDeed,
)

# ------------------------------------------------------------------------------------------------------------------- hub


class Held(Word):
    """Where a row of tb_0031 stands in a platform store; it is deleted on the receiver's Ack (rule R12).

    What an operator has refused stays, without its payload, until its sender has noted the refusal.
    """

    ABSENT = "no row for this message"
    SS_INIT = "stored, to be sent when the target is online"
    SS_SENT = "sent to the target, its Ack is awaited"
    REFUSED = "refused by an operator; its sender has not noted it yet"


class HubHeard(Word):
    """News for a stored message; the numbers are those of PROTOCOL.md section 5.2."""

    store = "H4: a message that cannot be forwarded at once"
    again = "H1: a message whose identity is in the store already"
    replace = "H1: a void marker for a stored payload"
    claim = "H5: the target is online and its window is open"
    ack = "H6: the receiver's Ack (or Inquiry R), and the identity is that of the row"
    ack_other = "H6: an Ack whose identity is not that of the row (rule R13)"
    held = "H11: the receiver answers that it has it"
    not_here = "H12: the receiver answers NOT to this attempt's inquiry"
    inquired = "H7, H8, H9: the sender asks"
    ask = "H10, H16: the interval has passed"
    refuse = "H16: an operator refuses it"
    noted = "H17: its sender has noted the refusal"
    resend = "H18: an operator has it sent again now"


class HubDeed(Word):
    """What the hub does besides changing the row."""

    ack_save = "answer Ack-Save with the locator of the row"
    reack = "answer ReAck"
    send = "send the message with LK1"
    wake = "look for unsent rows of this destination"
    custody = "answer CUSTODY with the locator of the row"
    pass_on = "relay to the receiver, or answer OFFLINE or GONE"
    ask_target = "Inquiry P to the receiver, if it is online"
    refuse = "tell the sender, with the operator's reason"


HUB = Grid(
    """
hub         ABSENT              SS_INIT             SS_SENT             REFUSED
store       SS_INIT:ack_save    !                   !                   !
again       !                   .:ack_save          .:ack_save          .:refuse
replace     !                   SS_INIT:ack_save    SS_INIT:ack_save    SS_INIT:ack_save
claim       !                   SS_SENT:send        !                   !
ack         .:reack             ABSENT:reack        ABSENT:reack        ABSENT:reack
ack_other   !                   .:reack             .:reack             .:reack
held        .                   ABSENT              ABSENT              ABSENT
not_here    .                   .                   SS_INIT:wake        .
inquired    .:pass_on           .:custody           .:custody           .:refuse
ask         !                   .                   .:ask_target        .:refuse
refuse      .                   REFUSED:refuse      REFUSED:refuse      .:refuse
noted       .                   .                   .                   ABSENT
resend      .                   .:wake              SS_INIT:wake        .
""",
    Held,
    HubHeard,
    HubDeed,
)

# -------------------------------------------------------------------------------------------------------------- receiver


class Known(Word):
    """What the receiver's ledger knows of a message; it alone decides whether a message has arrived (rule R1)."""

    NOT = "never recorded"
    RECV = "recorded"
    REJ = "recorded as refused"
    VOID = "recorded as void"
    SETTLED = "below the floor"


class Arrived(Word):
    """News for the receiver's ledger; PROTOCOL.md section 5.3, R1 and R5."""

    payload = "a readable message"
    unreadable = "a message that cannot be opened, read or accepted"
    marker = "a void marker"
    inquiry = "somebody asks"


class ReceiverDeed(Word):
    """What the receiver does besides recording."""

    record = "ledger entry and row of tb_0030 in one transaction, then Ack and Ack2"
    answer = "Ack and Ack2 (or Inquiry-Resp) with what the ledger knows"


RECEIVER = Grid(
    """
receiver    NOT          RECV         REJ          VOID         SETTLED
payload     RECV:record  .:answer     .:answer     .:answer     .:answer
unreadable  REJ:record   !            !            !            !
marker      VOID:record  .:answer     .:answer     .:answer     .:answer
inquiry     .:answer     .:answer     .:answer     .:answer     .:answer
""",
    Known,
    Arrived,
    ReceiverDeed,
)


class Owed(Word):
    """Whether the other side has noted our acknowledgement (``p_ack_status`` and ``s_ack_status`` of tb_0030)."""

    AS_INIT = "not known to be noted"
    AS_ACK = "noted"


class OwedHeard(Word):
    """News for one of the two acknowledgement statuses; PROTOCOL.md section 5.3, R3, R4, R7, R8."""

    reack = "ReAck or ReAck2"
    ask = "the interval has passed"


class OwedDeed(Word):
    """What the receiver does about an acknowledgement that may not have been noted."""

    inquire = "Inquiry R: I have it; have you noted it?"


OWED = Grid(
    """
owed     AS_INIT     AS_ACK
reack    AS_ACK      .
ask      .:inquire   .
""",
    Owed,
    OwedHeard,
    OwedDeed,
)


class Handling(Word):
    """How far the application is with a row of tb_0030."""

    NEW = "not done"
    DONE = "done for good"
    PARKED = "failed too often; a person must look"


class HandlingHeard(Word):
    """What the application or its connection says; PROTOCOL.md section 5.3, R6, and section 12."""

    give = "a consumer is free and the order allows it"
    done = "the application acknowledged"
    back = "the application gave it back, or its connection was lost"
    fail = "the application failed on it for the last time allowed"
    requeue = "an operator gives it another chance"


class HandlingDeed(Word):
    """What the receiver does besides changing the row."""

    give = "count the delivery in a commit of its own, then hand over (redelivered if it is not the first)"
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
    Handling,
    HandlingHeard,
    HandlingDeed,
)

GRIDS = (SENDER, SENDER_12, HUB, RECEIVER, OWED, HANDLING)
