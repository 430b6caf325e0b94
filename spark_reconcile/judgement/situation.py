"""The situation of a message in its three ledgers: a word for each side and remarks; the key of the verdict grid.

``facts`` collects, for each message and side, the events written at least once, as bits of one number. Below is a table
of words for each side: the first row whose condition holds gives the word. A row of the grid tests the situation as one
number, its "picture", with a bit for each word and each remark.
"""

from typing import NamedTuple

from semq.store.rows import Event
from spark_reconcile.extracts.events import NOTES, mask


class SideStanding(NamedTuple):
    """A word for the state of a message at one side, and the condition under which it applies.

    At least one event of ``shown_by`` is present, no event of ``unless`` is, and if ``needs`` is not empty, at least
    one event of ``needs`` is present.
    """

    name: str
    shown_by: int
    unless: int = 0
    needs: int = 0
    is_by_absence: bool = False  #: follows from absent lines, so it does not apply if the ledger may be incomplete


_ANY = ~NOTES & (2**31 - 1)
_TAKEN = mask(Event.FORWARDED, Event.STORED, Event.RELEASED)

# The outcomes of a message at its sender: final, at most one.
ENDINGS = mask(Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED)
# The records of a message in the receiver's ledger: exactly one of these, once.
RECORDS = mask(Event.RECEIVED, Event.REJECTED, Event.CANCELLED)

# "torn" (two outcomes of a sender) and "mixed" (two kinds of record of a receiver) have priority and are tested by
# ``assessment``.
SENDER_WORDS = (
    SideStanding("delivered", mask(Event.DELIVERED)),
    SideStanding("rejected", mask(Event.REJECTED)),
    SideStanding("cancelled", mask(Event.CANCELLED)),
    SideStanding("lost", mask(Event.LOST)),
    SideStanding("unknown", mask(Event.UNKNOWN)),
    SideStanding("dropped", mask(Event.DROPPED)),
    SideStanding("stored", mask(Event.STORED)),  # the sender has noted Ack-Save
    SideStanding("forwarded", mask(Event.FORWARDED)),  # the sender has noted Ack-Fwd
    SideStanding("sent", mask(Event.SENT)),
    SideStanding("refused", mask(Event.REFUSED)),  # the submission was refused
    SideStanding("accepted", _ANY),
)
HUB_WORDS = (
    # Refused by an operator of the hub; "returned" once the sender has noted the refusal.
    SideStanding("returning", mask(Event.REFUSED), mask(Event.RELEASED), mask(Event.OPERATOR)),
    SideStanding("returned", mask(Event.REFUSED), 0, mask(Event.OPERATOR)),
    SideStanding("refused", mask(Event.REFUSED), _TAKEN),
    SideStanding("dropped", mask(Event.DROPPED), _TAKEN),
    SideStanding("released", mask(Event.RELEASED)),
    SideStanding("parked", mask(Event.PARKED)),
    SideStanding("sent", mask(Event.SENT)),  # a stored copy, on its way to the receiver
    SideStanding("stored", mask(Event.STORED)),
    SideStanding("forwarded", mask(Event.FORWARDED)),
    SideStanding("stored", _ANY),
)
RECEIVER_WORDS = (
    SideStanding("parked", mask(Event.PARKED), mask(Event.DONE), mask(Event.RECEIVED)),
    SideStanding("received", mask(Event.RECEIVED)),
    SideStanding("rejected", mask(Event.REJECTED)),
    SideStanding("void", mask(Event.CANCELLED)),
    SideStanding("traces", _ANY, is_by_absence=True),  # later events of a message without a record
)

# none: the ledger has no line. missing: it has no line and is absent, or does not cover the time of the message.
# direct: the hub has no part in the message.
SENDERS = ("none", "missing", "torn", *dict.fromkeys(word.name for word in SENDER_WORDS))
HUBS = ("none", "missing", "direct", *dict.fromkeys(word.name for word in HUB_WORDS))
RECEIVERS = ("none", "missing", "mixed", *dict.fromkeys(word.name for word in RECEIVER_WORDS))

# Remarks and their meanings; "it" is the message.
REMARKS = (
    "unreadable",  # a line about it cannot be used: see ``facts``
    "out_of_range",  # the time of a line about it lies outside the dates that the extract of the line covers
    "locator",  # its source locator cannot be read
    "mismatch",  # it was seen with different bytes
    "twice",  # the receiver recorded it twice
    "astray",  # a node that is not its target recorded it
    "two_targets",  # lines name different targets
    "young",  # its last step was shortly before the end of the evidence, so the next may still follow
    "best_effort",  # class 1 or 2; an unknown class is neither best effort nor promised
    "promised",  # class 2 or 3: may not be dropped
    "untold",  # class 1 or 2 without Ack2: the sender never learns the outcome
    "owes",  # recorded by the receiver, whose ledger does not show that sender or hub noted the acknowledgement
    "kept",  # stored by the hub, whose ledger does not show that the copy was released
    "ahead",  # it begins after the end of its sender's evidence, or just before the end
    "no_hub",  # the institutions have no hub
)


class Situation(NamedTuple):
    """A situation: a word for each side, and the remarks."""

    sender: str
    hub: str
    receiver: str
    remarks: frozenset[str] = frozenset()

    @property
    def picture(self) -> int:
        """The situation as one number with a bit for each word and each remark."""
        bits = (bit(SENDERS, self.sender), bit(HUBS, self.hub, HUB_BIT), bit(RECEIVERS, self.receiver, RECEIVER_BIT))
        return sum(bits) + sum(bit(REMARKS, remark, REMARK_BIT) for remark in self.remarks)

    def pack(self) -> int:
        """Return the situation as one small integer, the inverse of ``unpack``."""
        bits = sum(1 << index for index, remark in enumerate(REMARKS) if remark in self.remarks)
        return (
            SENDERS.index(self.sender)
            | HUBS.index(self.hub) << HUB_SHIFT
            | RECEIVERS.index(self.receiver) << RECEIVER_SHIFT
            | bits << REMARK_SHIFT
        )


HUB_SHIFT, RECEIVER_SHIFT, REMARK_SHIFT = 4, 8, 12
# The numbers of the first bits of hub, receiver and remarks in a picture; the words of the sender begin at bit 0.
HUB_BIT = len(SENDERS)
RECEIVER_BIT = HUB_BIT + len(HUBS)
REMARK_BIT = RECEIVER_BIT + len(RECEIVERS)


def bit(words: tuple[str, ...], word: str, first: int = 0) -> int:
    """Return the bit of a word in a picture; ``first`` is the bit number of the first word."""
    return 1 << first + words.index(word)


def unpack(number: int) -> Situation:
    """Read a packed situation."""
    remarks = frozenset(remark for index, remark in enumerate(REMARKS) if number >> REMARK_SHIFT >> index & 1)
    sender, hub, receiver = number & 15, number >> HUB_SHIFT & 15, number >> RECEIVER_SHIFT & 15
    return Situation(SENDERS[sender], HUBS[hub], RECEIVERS[receiver], remarks)
