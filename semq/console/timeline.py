"""The time line of a message: the ledger lines of sender, hub and receiver in order, and the next event."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from semq.answers.messages import TracedLine
from semq.console.words import LINE_DETAILS
from semq.foreign_text import shown
from semq.service.operations.outlook import WAITS
from semq.web.pages.error_texts import pattern_of
from semq.web.pages.error_words import in_words
from semq.web.pages.templates import at

LANES = ("sender", "hub", "receiver")
CLASS = re.compile(r"SaveFwd=(?P<save_fwd>[123]) Ack2=(?P<ack2>[01])")  # the detail of ACCEPTED begins with it
GAP_S = 60  # shortest pause that is shown
TIMES = {"stated": True, "time": False, "until": False}  # fields of details that are times | whether with milliseconds
# Side of a waiting row | lane of its next event
LANE_OF = {"outbound": "sender", "inbound": "receiver", "relayed": "hub"}


class Moment(Struct, frozen=True):
    """A row of the time line."""

    lane: str  #: one of LANES
    at: int | None  #: milliseconds since 1970 UTC; None: a next event whose time is unknown
    words: str  #: the event, translated
    detail: Markup = Markup("")
    node: str = ""
    event: str = ""
    att: int = 0  #: number of the attempt
    after_s: float = 0.0  #: time since the previous event
    is_gap: bool = False  #: whether the pause before the event is shown
    is_proved: bool = True  #: False for a line in an unsigned answer of another node
    is_next: bool = False  #: whether the event has not happened yet
    is_inquiry: bool = False  #: whether ``at`` is the time of the next inquiry about it


def time_line(_: Callable[[str], str], events: Sequence[TracedLine]) -> list[Moment]:
    """Return a row for each ledger line. ``events`` are in the order of time."""
    moments: list[Moment] = []
    previous_at: int | None = None
    for line in events:
        at = int(line["at"] or 0)
        after_s = (at - previous_at) / 1000 if previous_at is not None else 0.0
        previous_at = at
        side = str(line.get("side") or "")
        moments.append(
            Moment(
                lane=side if side in LANES else "sender",
                at=at,
                words=_(str(line.get("words") or "")),
                detail=_detail(_, str(line.get("detail") or "")),
                node=str(line.get("node") or ""),
                event=str(line.get("event") or ""),
                att=int(line.get("att") or 0),
                after_s=after_s,
                is_gap=after_s >= GAP_S,
                is_proved=bool(line.get("proved", True)),
            )
        )
    return moments


def _detail(_: Callable[[str], str], text: str) -> Markup:
    """Return the detail of a ledger line as HTML, with the delivery class of an accepted document in words."""
    accepted = CLASS.match(text)
    if accepted is None:
        return _part(_, text)
    receipt = _("with a receipt of the receiver") if accepted["ack2"] == "1" else _("without a receipt of the receiver")
    words = (_("delivery class %(n)s") % {"n": accepted["save_fwd"]}, receipt)
    return Markup(", ").join((*words, *(_part(_, part) for part in text[accepted.end() :].split(", ")[1:])))


def _part(_: Callable[[str], str], text: str) -> Markup:
    text = shown(text)
    for words in LINE_DETAILS:
        if found := pattern_of(words).fullmatch(text):
            values = found.groupdict()
            times = {name: at(values[name], exact=TIMES[name]) for name in TIMES.keys() & values.keys()}
            return Markup(_(words)) % (values | times)
    return in_words(_, text)


def outlook_line(
    _: Callable[[str], str], outlook: Mapping[str, Any], is_hub: bool, not_before: int | None = None
) -> Moment:
    """Return the event for which a message waits, as a row at the end of the time line. ``not_before``: its time."""
    lane = "hub" if is_hub else LANE_OF[str(outlook["side"])]
    waits_for, asks_at = str(outlook["waits_for"]), outlook.get("asks_at")
    return Moment(
        lane=lane, at=not_before if waits_for == "time" else asks_at, words=_(WAITS.get(waits_for, "")), is_next=True,
        is_inquiry=asks_at is not None,
    )  # fmt: skip
