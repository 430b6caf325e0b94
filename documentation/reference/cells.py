"""Texts in tables of Markdown."""

from collections.abc import Iterable, Iterator


def table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table and an empty line; no lines if there are no rows."""
    cells = [[_cell(text) for text in row] for row in rows]
    if cells:
        names = list(heading)
        yield f"| {' | '.join(names)} |"
        yield f"|{'---|' * len(names)}"
        yield from (f"| {' | '.join(row)} |" for row in cells)
        yield ""


def code(text: str) -> str:
    """Return a text as code, also if it has back quotes."""
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}" if text else ""


def plain(text: str) -> str:
    """Return a text outside of code, in which nothing looks like HTML."""
    parts = text.replace("``", "`").split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
