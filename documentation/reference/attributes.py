"""The attributes of documents: for applications, and all of them for the protocol."""

from collections.abc import Iterator

from semq.umx_t.attributes import ATTRIBUTES, HEADERS, Attribute, SetBy


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield "Headers and properties of a published document; all are optional, defaults are bold."
    yield "[A document](../applications/documents.md#attributes) explains priority, dates, and what the receiver gets."
    yield ""
    yield from of_applications()
    yield ""
    yield "## All attributes, and where they are set"
    yield ""
    yield "The table of the protocol: [section 22](../protocol/attributes.md)."


def of_applications() -> Iterator[str]:
    """Yield the table of the attributes that an application may set."""
    yield from ("| header | values | meaning |", "|---|---|---|")
    for row in ATTRIBUTES:
        if row.set_by is SetBy.APPLICATION and row.is_of_document | row.is_header:
            name = f"`{row.name}`" if row.is_header else "others" if row.name == HEADERS else f"property `{row.name}`"
            yield f"| {name} | {row.values} | {row.meaning} |"


def of_all() -> Iterator[str]:
    """Yield the table of all attributes, which the protocol has."""
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
