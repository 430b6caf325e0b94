"""Sequence diagrams: a block ``sequence`` of a document becomes a drawing in the colours of the page.

    A | Hub | B          the parties
    A -> Hub: MSG        a message; ``--`` instead of ``->`` if it is lost
    A: COMMIT 1          what a party does
    == B is offline      a heading between the rows

The text can be read as it is, so that documents need no program to be understood.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any

WIDTH, ROW, TOP = 720, 34, 44
MESSAGE = re.compile(r"(\w[\w ]*?) (->|--) (\w[\w ]*?): (.*)")
ACT = re.compile(r"(\w[\w ]*?): (.*)")


class WrongDiagram(ValueError):
    """A line of a diagram that is neither a message, nor an act, nor a heading."""


def fence(source: str, *_: Any, **__: Any) -> str:
    """Return the drawing of a block; called by the site's parser."""
    return f'<div class="sequence">{svg(source)}</div>'


def svg(source: str) -> str:
    """Return a diagram as SVG. Raises WrongDiagram."""
    heading, *lines = [line.strip() for line in source.strip().splitlines() if line.strip()]
    parties = [name.strip() for name in heading.split("|")]
    height = TOP + ROW * len(lines) + 12
    places = {name: round(WIDTH * (2 * number + 1) / (2 * len(parties))) for number, name in enumerate(parties)}
    shapes = [*_parties(places, height), *(shape for y, line in _rows(lines) for shape in _row(line, y, places))]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(", ".join(parties))}">'
        f"{''.join(shapes)}</svg>"
    )


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    return ((TOP + ROW * number + 22, line) for number, line in enumerate(lines))


def _parties(places: dict[str, int], height: int) -> Iterator[str]:
    for name, x in places.items():
        yield f'<line class="life" x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{height}"/>'
        yield f'<rect class="party" x="{x - 70}" y="4" width="140" height="{TOP - 12}" rx="5"/>'
        yield _text(x, 25, name, "name")


def _row(line: str, y: int, places: dict[str, int]) -> Iterator[str]:
    if line.startswith("== "):
        yield f'<line class="rule" x1="8" y1="{y - 4}" x2="{WIDTH - 8}" y2="{y - 4}"/>'
        yield _text(WIDTH // 2, y, line[3:], "heading")
    elif (found := MESSAGE.fullmatch(line)) and {found[1], found[3]} <= places.keys():
        x1, x2 = places[found[1]], places[found[3]]
        step = 1 if x2 > x1 else -1
        end = (x1 + x2) // 2 if found[2] == "--" else x2 - 2 * step
        yield f'<line class="message" x1="{x1}" y1="{y}" x2="{end}" y2="{y}"/>'
        yield _head(end, y, step) if found[2] == "->" else _text(end, y + 5, "✕", "lost")
        yield _text((x1 + x2) // 2, y - 6, found[4], "label")
    elif (found := ACT.fullmatch(line)) and found[1] in places:
        yield _text(places[found[1]], y - 2, found[2], "act")
    else:
        raise WrongDiagram(line)


def _head(x: int, y: int, step: int) -> str:
    return f'<path class="head" d="M{x} {y}l{-9 * step} -4v8z"/>'


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{html.escape(text)}</text>'
