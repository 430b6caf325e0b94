"""The time line of a message: the ledger lines of each party, one lane per party, and the next event. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semq.service.operations.outlook import WAITS

LANES = ("sender", "hub", "receiver")
GAP_S = 60  # seconds of a pause that gets a line of its own
# Side of a row | lane of the party that it waits for
LANE_OF = {"outbound": "sender", "inbound": "receiver", "relayed": "hub"}


@dataclass(frozen=True, slots=True)
class Moment:
    """A row of the time line."""

    lane: str
    at: int | None
    words: str
    detail: str = ""
    node: str = ""
    event: str = ""
    att: int = 0
    after_s: float = 0.0  #: since the previous event
    is_gap: bool = False  #: whether the pause before it is shown
    is_proved: bool = True
    is_next: bool = False  #: has not happened yet


def time_line(_: Callable[[str], str], events: Sequence[Mapping[str, Any]]) -> list[Moment]:
    """Return the events in the order of time."""
    found: list[Moment] = []
    before: int | None = None
    for line in events:
        at = int(line["at"] or 0)
        after = (at - before) / 1000 if before is not None else 0.0
        before = at
        side = str(line.get("side") or "")
        found.append(
            Moment(
                lane=side if side in LANES else "sender",
                at=at,
                words=_(str(line.get("words") or "")),
                detail=str(line.get("detail") or ""),
                node=str(line.get("node") or ""),
                event=str(line.get("event") or ""),
                att=int(line.get("att") or 0),
                after_s=after,
                is_gap=after >= GAP_S,
                is_proved=bool(line.get("proved", True)),
            )
        )
    return found


def outlook_line(_: Callable[[str], str], outlook: Mapping[str, Any], is_hub: bool) -> Moment:
    """Return the event for which a message waits, as the last row of the time line."""
    lane = "hub" if is_hub else LANE_OF[str(outlook["side"])]
    return Moment(
        lane=lane, at=outlook.get("asks_at"), words=_(WAITS.get(str(outlook["waits_for"]), "")), is_next=True,
        detail=str(outlook.get("next_step") or ""),
    )  # fmt: skip
