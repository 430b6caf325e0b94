"""Texts of the report: events and states in words, ages and shares."""

from collections.abc import Mapping
from decimal import Decimal

from semq.durations import PRECISE_S, duration
from semq.store.rows import Event, Side
from spark_reconcile.language import _

SIDES = {Side.SENDER: "sender", Side.HUB: "hub", Side.RECEIVER: "receiver"}

# Events of the ledger in words; by side where the words differ.
EVENTS: dict[tuple[Side | None, Event], str] = {
    (None, Event.ACCEPTED): "accepted from the application",
    (None, Event.SENT): "sent",
    (Side.HUB, Event.SENT): "stored copy sent to the receiver",
    (Side.SENDER, Event.FORWARDED): "noted: forwarded by the hub (Ack-Fwd)",
    (Side.HUB, Event.FORWARDED): "forwarded to the receiver",
    (Side.SENDER, Event.STORED): "noted: stored by the hub (Ack-Save)",
    (Side.HUB, Event.STORED): "stored for the receiver",
    (None, Event.DELIVERED): "noted: delivered (Ack2)",
    (Side.SENDER, Event.REJECTED): "noted: rejected",
    (Side.RECEIVER, Event.REJECTED): "recorded as refused",
    (Side.SENDER, Event.CANCELLED): "noted: cancelled",
    (Side.RECEIVER, Event.CANCELLED): "void marker recorded",
    (None, Event.LOST): "reported lost",
    (None, Event.UNKNOWN): "reported unknown",
    (None, Event.DROPPED): "dropped: target offline",
    (None, Event.AGAIN): "to be sent again",
    (None, Event.INQUIRED): "inquired",
    (None, Event.ANSWERED): "answer noted",
    (None, Event.VOIDED): "cancellation or expiry requested",
    (None, Event.RELEASED): "stored copy released (Ack)",
    (None, Event.REFUSED): "refused",
    (None, Event.RECEIVED): "recorded",
    (None, Event.DUPLICATE): "known copy dropped",
    (None, Event.PLATFORM_ACKED): "hub has noted it (ReAck)",
    (None, Event.SENDER_ACKED): "sender has noted it (ReAck2)",
    (None, Event.GIVEN): "given to the application",
    (None, Event.DONE): "taken by the application",
    (None, Event.PARKED): "parked",
    (None, Event.MISMATCH): "alarm: other bytes",
    (None, Event.VIOLATION): "violation refused",
    (None, Event.OPERATOR): "operator acted",
}

# States of a message in one ledger (``situation``), in words.
STATE_WORDS = {
    "sender": {
        "none": "has no line", "missing": "delivered no ledger of that time", "torn": "states two outcomes",
        "delivered": "noted the delivery", "rejected": "noted the rejection", "cancelled": "noted the cancellation",
        "lost": "reported it lost", "unknown": "reported the outcome unknown", "dropped": "dropped it",
        "stored": "was informed that the hub stored it", "forwarded": "was informed that the hub forwarded it",
        "sent": "sent it and got no answer", "refused": "refused it", "accepted": "accepted it and never sent it",
    },
    "hub": {
        "none": "has no line", "missing": "delivered no ledger of that time", "direct": "has no part in it",
        "refused": "refused it", "dropped": "dropped it", "released": "released its copy", "stored": "stored it",
        "parked": "set its copy aside", "sent": "sent its stored copy", "forwarded": "forwarded it",
        "returning": "refused its copy by an operator's order", "returned": "refused its copy, and the sender noted it",
    },
    "receiver": {
        "none": "has no line", "missing": "delivered no ledger of that time", "received": "recorded it",
        "mixed": "made two records of different kinds", "parked": "recorded it and set it aside",
        "rejected": "recorded a refusal", "void": "recorded a void marker", "traces": "acted on it without a record",
    },
}  # fmt: skip


def pair_name(sender: str, receiver: str) -> str:
    """Return the name of a pair, as in the settings."""
    return f"{sender}>{receiver}"


def app_key_type(row: Mapping[str, object]) -> str:
    """Return the type of a business key, such as trade/order/standard; empty if it is not disclosed."""
    parts = [str(row.get(name) or "") for name in ("app_domain", "app_type", "app_subtype")]
    return "/".join(parts) if any(parts) else ""


def state_words(side: str, word: str) -> str:
    """Return the text for the state of a message in one side's ledger. ``word``: a word of ``situation``."""
    return STATE_WORDS[side].get(word, word)


def event_words(side: int | None, event: int | None) -> str:
    """Return the event of a line in words; an unknown side or event as its number."""
    try:
        member = Event(event or 0)
        of_side = EVENTS.get((Side(side or 0), member))
    except ValueError:
        return f"unreadable: side {side}, event {event}"
    return of_side or EVENTS.get((None, member), member.name.lower())


def side_word(side: int | None) -> str:
    """Return the name of the side for which a line was written; ``?`` for an unknown side."""
    return SIDES[Side(side)] if side in {int(member) for member in Side} else "?"


def age(ms: int | None) -> str:
    """Return a duration as text; empty for None."""
    return "" if ms is None else duration(ms / 1000)


def off_by(ms: int) -> str:
    """Return by how much a clock is fast or slow, as measured: rounded, where an age counts whole seconds."""
    seconds = abs(ms) / 1000
    text = _("fast by %(time)s") if ms > 0 else _("slow by %(time)s")
    return text % {"time": duration(seconds if seconds < PRECISE_S else round(seconds))}


def percent(part: float, of: float) -> str:
    """Return a share with enough digits to differ from 0 and 100 %; empty if the total is 0."""
    if not of:
        return ""
    share = 100 * part / of
    if share >= 99.95 and part < of:
        texts = (f"{share:.{digits}f}" for digits in (2, 3))
        return next((f"{text} %" for text in texts if not text.startswith("100")), "> 99.999 %")
    if share >= 0.1 or not part:
        return f"{share:.1f} %"
    return f"{share:.2g} %" if share >= 0.001 else "< 0.001 %"


def percent_above(share: float, limit: float) -> str:
    """Return a share with enough digits to show that it is above a limit."""
    accepted = Decimal(repr(limit)) * 100
    texts = (percent(share, 1).removesuffix(" %"), *(f"{100 * share:.{digits}f}" for digits in range(2, 16)))
    exact = (text for text in texts if text[0] not in "<>")
    return next((f"{text} %" for text in exact if Decimal(text) > accepted), f"{100 * share!r} %")
