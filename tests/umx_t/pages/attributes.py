"""The tables of attributes in README.md and PROTOCOL.md, and the keys that ``semq_send`` permits in its headers.

``python -m tests.umx_t.pages.attributes`` writes them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from semq.umx_t.attributes import ATTRIBUTES, HEADERS, Attribute, SetBy

ROOT = Path(__file__).parents[3]


def of_applications() -> Iterator[str]:
    """Return the table for README.md: the attributes that an application may set."""
    yield from ("| header | values | meaning |", "|---|---|---|")
    for row in ATTRIBUTES:
        if row.set_by is SetBy.APPLICATION and row.is_of_document | row.is_header:
            name = f"`{row.name}`" if row.is_header else "others" if row.name == HEADERS else f"property `{row.name}`"
            yield f"| {name} | {row.values} | {row.meaning} |"


def of_all() -> Iterator[str]:
    """Return the table for PROTOCOL.md: all attributes."""
    yield "| attribute | set by | bound | JSON, Python | SQL | `semq msg send` | received | meaning |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in ATTRIBUTES:
        cells = (_quoted(row.name), row.set_by.value, _bound(row), _quoted(_argument(row)), _quoted(row.sql),
                 _quoted(row.option), _received(row), row.meaning)  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _argument(row: Attribute) -> str:
    return (row.name if row.name in (HEADERS, "target") else row.field) if row.set_by is SetBy.APPLICATION else ""


def _received(row: Attribute) -> str:
    """Return the interfaces by which the receiver's application gets the attribute."""
    shown = {"AMQP": row.is_for_receiver, "Python": bool(row.python), "SQL": bool(row.inbox)}
    return ", ".join(name for name, is_shown in shown.items() if is_shown)


def _bound(row: Attribute) -> str:
    return row.bound.value if row.since == 1 else f"{row.bound.value}, version {row.since}"


def _quoted(text: str) -> str:
    return f"`{text}`" if text and " @" not in text else text


def of_semq_send() -> Iterator[str]:
    """Return declarations for ``semq_send``: headers that have a parameter of their own, and those that it permits."""
    headers = [row for row in ATTRIBUTES if row.set_by is SetBy.APPLICATION and row.is_header]
    for name, is_parameter in (("parameters", True), ("permitted", False)):
        keys = ",".join(row.name for row in headers if bool(row.sql) is is_parameter)
        yield f"    {name} text[] := '{{{keys}}}';"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "README.md": of_applications,
    "PROTOCOL.md": of_all,
    "semq/store/sql/submission.sql": of_semq_send,
}


def printed(name: str, page: str) -> str:
    """Return the text of a page, with its table replaced by the present one."""
    table = "\n".join(PAGES[name]()) + "\n"
    between = re.compile(r"(<!-- attributes -->\n).*?( *(?:-- )?<!-- end of attributes -->\n)", re.DOTALL)
    page, count = between.subn(lambda match: match[1] + table + match[2], page)
    assert count == 1, name
    return page


if __name__ == "__main__":
    for each in PAGES:
        (ROOT / each).write_text(printed(each, (ROOT / each).read_text("utf-8")), "utf-8")
