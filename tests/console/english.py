"""The English sentences of a page that are not marked as English."""

import re
from html.parser import HTMLParser

SENTENCE = re.compile(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", re.IGNORECASE)
EMPTY = ("meta", "link", "input", "br", "path", "rect")  # elements without an end tag, or without text
QUOTED = ("code", "pre", "textarea", "script", "style", "output")


class Unmarked(HTMLParser):
    """Collects the texts outside of code and of elements in English."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[bool] = []  # for each open element: whether it is code or English

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            facts = dict(attrs)
            classes = (facts.get("class") or "").split()
            is_code = tag in QUOTED or "mono" in classes or (tag, classes) == ("p", ["code"])
            self._open.append(is_code or facts.get("lang") == "en")

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self._open) and SENTENCE.search(data):
            self.found.append(data.strip())


def unmarked_sentences(html: str) -> list[str]:
    """Return the English sentences of a page outside of code and of elements in English."""
    parser = Unmarked()
    parser.feed(html)
    return parser.found
