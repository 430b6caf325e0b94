"""Layout of tables as lines of text. Long cells are folded to the width of the terminal.

No package for tables is used, because importing one takes longer than a request to a node.
"""

from collections.abc import Iterator, Sequence
from unicodedata import category, east_asian_width

Column = tuple[str, str]  # heading, and < or > for its alignment

UNFOLDED_MAX = 25  # widest column that is never folded, in terminal cells: short names, times with date and offset
FOLDED_MIN = 16  # smallest width of a folded column, in terminal cells
GAP = "  "


def lines_of(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield headings, a rule, and rows. ``width``: of the terminal, in cells."""
    widths = _widths([[heading, *(row[number] for row in rows)] for number, (heading, _) in enumerate(columns)], width)
    sides = [side for _, side in columns]
    yield from _lines_of_row([heading for heading, _ in columns], sides, widths)
    yield "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    for row in rows:
        yield from _lines_of_row(row, sides, widths)


def width_of(text: str) -> int:
    """Return the width of a text in cells: two for a wide character, none for a combining one."""
    return len(text) if text.isascii() else sum(map(_width_of_character, text))


def fold(text: str, width: int) -> list[str]:
    """Return a text as lines of at most ``width`` cells, broken between words if possible."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if width_of(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while width_of(word) > width and (head := _beginning(word, width)) != word:
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line]


def _width_of_character(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _beginning(word: str, width: int) -> str:
    """Return the longest beginning of a word that fits into ``width`` cells, at least one character."""
    used = 0
    for length, character in enumerate(word):
        used += _width_of_character(character)
        if used > width:
            return word[: max(length, 1)]
    return word


def _widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column. Long columns share the width that short columns leave.

    The narrowest long column comes first: what it leaves of its share is divided among the others.
    """
    widths = [max(map(width_of, column)) for column in columns]
    free = width - len(GAP) * (len(widths) - 1) - sum(needed for needed in widths if needed <= UNFOLDED_MAX)
    long_columns = [number for number, needed in enumerate(widths) if needed > UNFOLDED_MAX]
    long_columns.sort(key=lambda number: widths[number])
    for done, number in enumerate(long_columns):
        share = free // (len(long_columns) - done)
        widths[number] = min(widths[number], max(share, FOLDED_MIN))
        free -= widths[number]
    return widths


def _lines_of_row(row: Sequence[str], sides: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    parts = [fold(cell, cell_width) for cell, cell_width in zip(row, widths, strict=True)]
    for number in range(max(map(len, parts))):
        line = [part[number] if number < len(part) else "" for part in parts]
        yield GAP.join(map(_aligned, line, sides, widths)).rstrip()


def _aligned(text: str, side: str, width: int) -> str:
    space = " " * (width - width_of(text))
    return space + text if side == ">" else text + space
