"""A page, read without layout or script: headings, tables with their captions, links and anchors."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

# Attributes with an address that a browser fetches or sends to; `href` is one of them outside `a` only.
_FETCHED = {"src", "srcset", "action", "formaction", "xlink:href", "data", "poster", "background", "href"}


@dataclass
class Table:
    """A table: caption, rows of cells as text, and the attribute ``scope`` of each heading."""

    caption: str = ""
    rows: list[list[str]] = field(default_factory=list)
    scopes: list[str | None] = field(default_factory=list)

    def column(self, heading: str) -> dict[str, str]:
        """Return the cells of a column by the first cell of their row."""
        at = self.rows[0].index(heading)
        return {row[0]: row[at] for row in self.rows[1:]}


class PageReader(HTMLParser):
    """A reader of a page. The content of pictures is ignored."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[tuple[int, str]] = []
        self.tables: list[Table] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []  #: attributes that a browser might fetch or run
        self.charts: list[str] = []  #: the names of the pictures
        self.lang = ""
        self._open: list[str] = []  #: open tags
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.add(tag)
        self._add_references(tag, attrs)
        self.ids += [value for name, value in attrs if name == "id" and value and "svg" not in self._open]
        if tag == "svg":
            assert attributes.get("role") == "img"
            self.charts.append(attributes["aria-label"] or "")
        elif tag == "html":
            self.lang = attributes.get("lang") or ""
        elif tag == "a":
            self.links.append(attributes.get("href") or "")
        elif tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.headings.append((int(tag[1]), ""))
        elif tag == "table":
            self.tables.append(Table())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("th", "td"):
            self.tables[-1].rows[-1].append("")
            if tag == "th":
                self.tables[-1].scopes.append(attributes.get("scope"))
        if tag not in ("meta", "br", "link", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1:] == [tag], f"</{tag}> does not close the tag that was opened last"
        self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._add_references(tag, attrs)

    def _add_references(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fetched = _FETCHED - {"href"} if tag == "a" else _FETCHED
        self.references += [
            f"{name}={value}"
            for name, value in attrs
            if name in fetched or name.startswith("on") or (name == "style" and "url(" in (value or ""))
        ]

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not text or "svg" in self._open or "style" in self._open:
            return
        last = self._open[-1] if self._open else ""
        if self.headings and any(tag[0] == "h" and tag[1:].isdigit() for tag in self._open):
            level, words = self.headings[-1]
            self.headings[-1] = (level, f"{words} {text}".strip())
        if "caption" in self._open:
            self.tables[-1].caption = f"{self.tables[-1].caption} {text}".strip()
        elif last and ("td" in self._open or "th" in self._open):
            row = self.tables[-1].rows[-1]
            row[-1] = f"{row[-1]} {text}".strip()

    def table(self, caption: str) -> Table:
        """Return the first table whose caption begins with this text."""
        return next(table for table in self.tables if table.caption.startswith(caption))


def number(text: str) -> int:
    """Return the value of a number in the form of the page; 0 for an empty cell."""
    return int(text.replace(",", "") or 0)
