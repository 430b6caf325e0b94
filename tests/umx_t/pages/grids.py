"""The grids in PROTOCOL.md section 5, between markers; ``python -m tests.umx_t.pages.grids`` writes them."""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from semq.umx_t.grid import Grid
from semq.umx_t.grids import (
    EXCEPTIONS,
    GRIDS,
    HandlingDeed,
    HandlingEvent,
    HubDeed,
    HubEvent,
    OwedDeed,
    OwedEvent,
    ReceiverDeed,
    ReceiverEvent,
    SenderDeed,
    SenderEvent,
)

PROTOCOL = Path(__file__).parents[3] / "PROTOCOL.md"
# The meanings of the words of a grid; those of class12 are printed with class3.
WORDS: dict[str, tuple[type[Enum], type[Enum]]] = {
    "class3": (SenderEvent, SenderDeed),
    "hub": (HubEvent, HubDeed),
    "receiver": (ReceiverEvent, ReceiverDeed),
    "owed": (OwedEvent, OwedDeed),
    "handling": (HandlingEvent, HandlingDeed),
}


def lines_of(grid: Grid[Any, Any, Any]) -> Iterator[str]:
    """Yield the lines between the markers of a grid."""
    yield from ("```", grid.text.strip(), "```")
    for title, words in zip(("event", "deed"), WORDS.get(grid.name, ()), strict=False):
        yield from ("", f"| {title} | meaning |", "| --- | --- |")
        yield from (f"| `{word.name}` | {word.value} |" for word in words)
    beside = [f"- {text}" for name, text in EXCEPTIONS if name == grid.name]
    yield from ("", "Beside the cells:", "", *beside) if beside else ()


def printed(protocol: str) -> str:
    """Return the text of PROTOCOL.md, with every grid replaced by the present one."""
    for grid in GRIDS:
        between = re.compile(rf"(<!-- grid {grid.name} -->\n).*?(<!-- end of grid -->\n)", re.DOTALL)
        text = "\n".join(lines_of(grid)) + "\n"
        protocol, count = between.subn(lambda match, text=text: match[1] + text + match[2], protocol)  # type: ignore[misc]
        assert count == 1, grid.name
    return protocol


if __name__ == "__main__":
    PROTOCOL.write_text(printed(PROTOCOL.read_text("utf-8")), "utf-8")
