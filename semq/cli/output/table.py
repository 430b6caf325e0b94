"""Layout of tables: headings, a line, rows; long cells folded to the width of the terminal.

Pure text; `output` prints it. No package for tables is used, because importing one takes longer than a request to a
node.
"""

from collections.abc import Iterator, Sequence
from unicodedata import category, east_asian_width

Column = tuple[str, str]  # heading, and < or > for its alignment

WHOLE_MAX = 22  # cells of a column that is never folded: a short name, a time with its offset
FOLDED_MIN = 8  # smallest width of a folded column, in cells, on a narrow terminal
GAP = "  "


def lines_of(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Return the lines of a table: the headings, a line under them, the rows."""
    widths = _widths([[heading, *(row[place] for row in rows)] for place, (heading, _) in enumerate(columns)], width)
    sides = [side for _, side in columns]
    yield from _row([heading for heading, _ in columns], sides, widths)
    yield "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    for row in rows:
        yield from _row(row, sides, widths)


def cells(text: str) -> int:
    """Return the width of a text in terminal cells: two for a wide character, none for a combining one."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def folded(text: str, width: int) -> list[str]:
    """Return a text as lines of at most ``width`` cells, broken between words where that is possible."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while cells(word) > width and (head := _cut(word, width)) != word:
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line]


def _cells_of(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _cut(word: str, width: int) -> str:
    """Return the longest beginning of a word that fits, one character at least."""
    used = 0
    for place, character in enumerate(word):
        used += _cells_of(character)
        if used > width:
            return word[: max(place, 1)]
    return word


def _widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column: short columns whole; the rest of the line is shared by the long ones."""
    widths = [max(map(cells, column)) for column in columns]
    long = sorted((place for place, wide in enumerate(widths) if wide > WHOLE_MAX), key=lambda place: widths[place])
    left = width - len(GAP) * (len(widths) - 1) - sum(wide for wide in widths if wide <= WHOLE_MAX)
    for count, place in zip(range(len(long), 0, -1), long, strict=True):
        widths[place] = min(widths[place], max(left // count, FOLDED_MIN))
        left -= widths[place]
    return widths


def _row(row: Sequence[str], sides: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    parts = [folded(cell, wide) for cell, wide in zip(row, widths, strict=True)]
    for number in range(max(map(len, parts))):
        line = [part[number] if number < len(part) else "" for part in parts]
        yield GAP.join(map(_set, line, sides, widths)).rstrip()


def _set(text: str, side: str, width: int) -> str:
    space = " " * (width - cells(text))
    return space + text if side == ">" else text + space
