"""Labels of the cells: each cell of a table gets the heading of its column, which narrow screens show beside it instead
of a heading far above. The labels are copied from the headings of the page, so that label and heading never differ."""

import re

_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<thead>(.*?)</thead>", re.DOTALL)
_HEADING = re.compile(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_PART = re.compile(r"<tr\b|<t(?P<kind>[dh])\b(?P<given>[^>]*)>")
_SPAN = re.compile(r'colspan="(\d+)"')


def labelled(page: str) -> str:
    """Return the page with ``data-label`` at every cell below a heading. Foreign texts are escaped and contain
    no tags.
    """
    return _TABLE.sub(lambda found: _table(found[0]), page)


def _table(table: str) -> str:
    head = _HEAD.search(table)
    if head is None:
        return table
    headings = [" ".join(_TAG.sub(" ", text).split()) for text in _HEADING.findall(head[1])]
    column = 0

    def cell(found: re.Match[str]) -> str:
        nonlocal column
        if not found["kind"]:
            column = 0
            return found[0]
        at, span = column, _SPAN.search(found["given"])
        column += int(span[1]) if span else 1
        if found["kind"] == "h" or span or at >= len(headings) or not headings[at]:
            return found[0]
        return f'<td data-label="{headings[at]}"{found["given"]}>'

    return table[: head.end()] + _PART.sub(cell, table[head.end() :])
