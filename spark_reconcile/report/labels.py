"""Labels of the cells of tables: the heading of the column, which narrow screens show beside each cell."""

import re

_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<thead>(.*?)</thead>", re.DOTALL)
_HEADING = re.compile(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_START_TAG = re.compile(r"<tr\b|<t(?P<kind>[dh])\b(?P<attributes>[^>]*)>")
_SPAN = re.compile(r'colspan="(\d+)"')


def labelled(page: str) -> str:
    """Return the page with ``data-label`` at the data cells of tables. Foreign texts in the page must be escaped."""
    return _TABLE.sub(lambda match: _table(match[0]), page)


def _table(table: str) -> str:
    head = _HEAD.search(table)
    if head is None:
        return table
    headings = [" ".join(_TAG.sub(" ", text).split()) for text in _HEADING.findall(head[1])]
    column = 0

    def label(tag: re.Match[str]) -> str:
        nonlocal column
        if not tag["kind"]:  # a row begins
            column = 0
            return tag[0]
        at, span = column, _SPAN.search(tag["attributes"])
        column += int(span[1]) if span else 1
        if tag["kind"] == "h" or span or at >= len(headings) or not headings[at]:
            return tag[0]
        return f'<td data-label="{headings[at]}"{tag["attributes"]}>'

    return table[: head.end()] + _START_TAG.sub(label, table[head.end() :])
