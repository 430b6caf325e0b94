"""The situation of a message in its three ledgers: a word for each side and remarks; the key of the verdict grid.

Each side has a table of words: the first row whose condition holds for the events in the ledger (bits of one number,
see ``facts``) gives the word. The grid tests a "picture": a number with a bit for each word and each remark.
"""

from typing import NamedTuple

from semq.store.rows import Event
from spark_reconcile.extracts.events import NOTES, mask


class SideWord(NamedTuple):
    """A word for the state of a message at one side. It applies if an event of ``shown_by`` is present, no event of
    ``unless``, and, if ``needs`` is not 0, an event of ``needs``."""

    name: str
    shown_by: int
    unless: int = 0
    needs: int = 0
    is_by_absence: bool = False  #: follows from absent lines, so it does not apply if the ledger may be incomplete


_ANY = ~NOTES & (2**31 - 1)
_TAKEN = mask(Event.FORWARDED, Event.STORED, Event.RELEASED)

# Outcomes of a message at its sender: at most one.
ENDINGS = mask(Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED)
# Records of a message in the receiver's ledger: exactly one of these, once.
RECORDS = mask(Event.RECEIVED, Event.REJECTED, Event.CANCELLED)

# Before these tables ``assessment`` tests "torn" (two outcomes) and "mixed" (two kinds of record).
SENDER_WORDS = (
    SideWord("delivered", mask(Event.DELIVERED)),
    SideWord("rejected", mask(Event.REJECTED)),
    SideWord("cancelled", mask(Event.CANCELLED)),
    SideWord("lost", mask(Event.LOST)),
    SideWord("unknown", mask(Event.UNKNOWN)),
    SideWord("dropped", mask(Event.DROPPED)),
    SideWord("stored", mask(Event.STORED)),  # Ack-Save
    SideWord("forwarded", mask(Event.FORWARDED)),  # Ack-Fwd
    SideWord("sent", mask(Event.SENT)),
    SideWord("refused", mask(Event.REFUSED)),  # as a submission
    SideWord("accepted", _ANY),
)
HUB_WORDS = (
    # Refused by an operator of the hub; "returned" once the sender has noted the refusal.
    SideWord("returning", mask(Event.REFUSED), mask(Event.RELEASED), mask(Event.OPERATOR)),
    SideWord("returned", mask(Event.REFUSED), 0, mask(Event.OPERATOR)),
    SideWord("refused", mask(Event.REFUSED), _TAKEN),
    SideWord("dropped", mask(Event.DROPPED), _TAKEN),
    SideWord("released", mask(Event.RELEASED)),
    SideWord("parked", mask(Event.PARKED)),
    SideWord("sent", mask(Event.SENT)),  # a stored copy, on its way to the receiver
    SideWord("stored", mask(Event.STORED)),
    SideWord("forwarded", mask(Event.FORWARDED)),
    SideWord("stored", _ANY),
)
RECEIVER_WORDS = (
    SideWord("parked", mask(Event.PARKED), mask(Event.DONE), mask(Event.RECEIVED)),
    SideWord("received", mask(Event.RECEIVED)),
    SideWord("rejected", mask(Event.REJECTED)),
    SideWord("void", mask(Event.CANCELLED)),
    SideWord("traces", _ANY, is_by_absence=True),  # later events of a message without a record
)

# none: the ledger has no line. missing: it has no line and is absent, or does not cover the time of the message.
# direct: the hub has no part in the message.
SENDERS = ("none", "missing", "torn", *dict.fromkeys(word.name for word in SENDER_WORDS))
HUBS = ("none", "missing", "direct", *dict.fromkeys(word.name for word in HUB_WORDS))
RECEIVERS = ("none", "missing", "mixed", *dict.fromkeys(word.name for word in RECEIVER_WORDS))

# Remarks; "it" is the message.
REMARKS = (
    "unreadable",  # a line about it cannot be used
    "out_of_range",  # a line about it has a time outside the dates of the extract
    "locator",  # its source locator cannot be read
    "mismatch",  # it was seen with different bytes
    "twice",  # the receiver recorded it twice
    "astray",  # a node that is not its target has lines about it for the receiver's side
    "two_targets",  # lines name different targets
    "young",  # its last step was shortly before the end of the evidence
    "best_effort",  # class 1 or 2
    "promised",  # class 2 or 3
    "untold",  # class 1 or 2 without Ack2
    "owes",  # recorded; the receiver's ledger does not show that sender or hub noted the acknowledgement
    "kept",  # stored; the hub's ledger does not show that the copy was released
    "ahead",  # it begins after, or just before, the end of the sender's evidence
    "no_hub",  # the institutions have no hub
    # Carried, never reported, and the ledger of this side may have further lines: it is absent, or begins after the end
    # of the evidence of the last complete run.
    "sender_away",
    "hub_away",
    "receiver_away",
    "unsent",  # its sender has no line that it left
)


class Situation(NamedTuple):
    """A word for each side, and remarks."""

    sender: str
    hub: str
    receiver: str
    remarks: frozenset[str] = frozenset()

    @property
    def picture(self) -> int:
        """The number that the grid tests."""
        bits = (bit(SENDERS, self.sender), bit(HUBS, self.hub, HUB_BIT), bit(RECEIVERS, self.receiver, RECEIVER_BIT))
        return sum(bits) + sum(bit(REMARKS, remark, REMARK_BIT) for remark in self.remarks)

    def pack(self) -> int:
        """Return the situation as a small integer, for ``unpack``."""
        bits = sum(1 << index for index, remark in enumerate(REMARKS) if remark in self.remarks)
        return (
            SENDERS.index(self.sender)
            | HUBS.index(self.hub) << HUB_SHIFT
            | RECEIVERS.index(self.receiver) << RECEIVER_SHIFT
            | bits << REMARK_SHIFT
        )


HUB_SHIFT, RECEIVER_SHIFT, REMARK_SHIFT = 4, 8, 12
# First bits of hub, receiver and remarks in a picture; the sender's are the first of all.
HUB_BIT = len(SENDERS)
RECEIVER_BIT = HUB_BIT + len(HUBS)
REMARK_BIT = RECEIVER_BIT + len(RECEIVERS)


def bit(words: tuple[str, ...], word: str, first: int = 0) -> int:
    """Return the bit of a word in a picture; ``first`` is the number of the first word's bit."""
    return 1 << first + words.index(word)


def unpack(number: int) -> Situation:
    """Read a packed situation."""
    remarks = frozenset(remark for index, remark in enumerate(REMARKS) if number >> REMARK_SHIFT >> index & 1)
    sender, hub, receiver = number & 15, number >> HUB_SHIFT & 15, number >> RECEIVER_SHIFT & 15
    return Situation(SENDERS[sender], HUBS[hub], RECEIVERS[receiver], remarks)
