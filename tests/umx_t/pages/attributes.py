"""The table of attributes in the protocol, and the keys that ``semq_send`` permits in its headers.

``python -m tests.umx_t.pages.attributes`` writes them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from documentation.reference.attributes import of_all
from semq.umx_t.attributes import ATTRIBUTES, SetBy

ROOT = Path(__file__).parents[3]


def of_semq_send() -> Iterator[str]:
    """Return declarations for ``semq_send``: headers that have a parameter of their own, and those that it permits."""
    headers = [row for row in ATTRIBUTES if row.set_by is SetBy.APPLICATION and row.is_header]
    for name, is_parameter in (("parameters", True), ("permitted", False)):
        keys = ",".join(row.name for row in headers if bool(row.sql) is is_parameter)
        yield f"    {name} text[] := '{{{keys}}}';"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "docs/protocol/attributes.md": of_all,
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
