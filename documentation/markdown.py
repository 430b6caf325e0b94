"""Lists as GitHub reads them, for a parser that wants an empty line before them and four spaces inside them."""

import re
from collections.abc import Iterator

ITEM = re.compile(r"^( *)([-*]|\d+\.) +")


def for_the_site(text: str) -> str:
    """Return the text with its lists as the parser wants them."""
    return "\n".join(_lines(text.splitlines())) + "\n"


def _lines(lines: list[str]) -> Iterator[str]:
    is_code, before, widths = False, "", list[int]()  # widths: of the items that are open, from outside in
    for line in lines:
        was_code = is_code
        if line.lstrip().startswith("```"):
            is_code = not is_code
        indent = len(line) - len(line.lstrip())
        if line.strip() and not (was_code and is_code):  # also before code that is not indented as the item is
            while widths and indent < widths[-1]:
                widths.pop()
        item = None if is_code else ITEM.match(line)
        is_inside = bool(widths) and indent >= widths[-1]
        moved = " " * 4 * len(widths) + line[widths[-1] :] if is_inside or (is_code and widths) else line
        if item and (indent < 4 or widths):
            if before.strip() and not ITEM.match(before) and (not widths) and not before.startswith(" "):
                yield ""
            moved = " " * 4 * len(widths) + line.lstrip()
            widths.append(item.end())
        yield moved if line.strip() else ""
        before = line
