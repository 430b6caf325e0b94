"""The page docs/applications/values.md: each of its tables stands between two markers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from local_node.doors.properties import CARRIED
from tests.interop.matrix.programs import Arrived, value_in
from tests.interop.matrix.values import PROPERTIES, RECEIVED, SENT, Given, Shown, decoded, expected, is_same, shown

PAGE = Path(__file__).parents[3] / "docs" / "applications" / "values.md"
NOTHING_LOST = "nothing lost"

# Property | what the document has at the receiver
IN_DOCUMENT = {
    "content_type": "the same",
    "content_encoding": "the same",
    "delivery_mode": "always 2",
    "priority": "the same",
    "correlation_id": "the same",
    "reply_to": "not passed on",
    "expiration": "`@ExpiresAt`",
    "message_id": "`x-message-id`",
    "timestamp": "`x-timestamp`",
    "type": "the same",
    "user_id": "not passed on",
    "app_id": "`x-app-id`",
    "cluster_id": "`x-cluster-id`",
}


class Seen(NamedTuple):
    """What was seen of all clients, by their names."""

    sent: dict[str, Arrived]
    received: dict[str, Mapping[str, Shown | None]]
    properties: dict[str, Mapping[str, Shown | None]]  #: as receivers show them
    places: dict[str, Mapping[str, str]]  #: of the properties, by interface of SEMQ


def tables(seen: Seen) -> dict[str, str]:
    """Return the tables by the name of their marker."""
    return {
        "values sent": "\n".join(of_senders(seen.sent)),
        "values received": "\n".join(of_receivers(seen.received)),
        "properties sent": "\n".join(of_sent_properties(seen.sent)),
        "properties received": "\n".join(of_received_properties(seen.properties)),
        "properties shown": "\n".join(of_places(seen.places)),
    }


def of_senders(sent: Mapping[str, Arrived]) -> Iterable[str]:
    """Yield a row for each value: the letter that a client writes, and the value if it is another one."""
    yield from _head("value", *sent, "SEMQ")
    for given in SENT:
        cells = [_sent_cell(arrived, given.name, expected(given)) for arrived in sent.values()]
        lost = [name for name, arrived in sent.items() if is_changed(arrived, given.name)]
        yield _row(given.name, *cells, _verdict(lost, NOTHING_LOST))


def is_changed(arrived: Arrived, name: str) -> bool:
    """Return whether the bytes of a value that a client wrote to a queue differ from those in the document."""
    return name in arrived.written and value_in(arrived.written, name) != value_in(arrived.documents, name)


def _sent_cell(arrived: Arrived, name: str, value: Shown) -> str:
    field = value_in(arrived.documents, name)
    if name in arrived.refused or not field:
        return "–"
    letter, found = chr(field[0]), shown(decoded(field))
    return f"`{letter}`" if is_same(found, value) else f"`{letter}` **{_text(found)}**"


def of_receivers(received: Mapping[str, Mapping[str, Shown | None]]) -> Iterable[str]:
    """Yield a row for each encoded value: what a client shows, if it is another value."""
    yield from _head("letter and value", *received)
    for name, field in RECEIVED.items():
        value = shown(decoded(field))
        yield _row(f"`{name[0]}`{name[1:]}", *[_received_cell(values.get(name), value) for values in received.values()])


def of_sent_properties(sent: Mapping[str, Arrived]) -> Iterable[str]:
    """Yield a row for each property: whether a client writes it, and what the document has."""
    yield from _head("property", *sent, "in the document")
    for given in PROPERTIES:
        cells = [_property_cell(arrived, given) for arrived in sent.values()]
        lost = [name for name, arrived in sent.items() if not is_kept(arrived, given)]
        yield _row(f"`{given.name}`", *cells, _verdict(lost, IN_DOCUMENT[given.name]))


def _property_cell(arrived: Arrived, given: Given) -> str:
    if given.name in arrived.refused or given.name not in arrived.documents:
        return "–"
    if not arrived.written:  # an interface of SEMQ: ``is_kept`` compares the document with what was given
        return "✓"
    found = shown(getattr(arrived.written[given.name].properties, given.name))
    if found == ["null"]:
        return "–"
    return "✓" if found[-1] == given.value else f"**{_text(found)}**"


def is_kept(arrived: Arrived, given: Given) -> bool:
    """Return whether the document of a property has what the table promises."""
    if given.name in arrived.refused:
        return True
    if given.name not in arrived.documents:
        return False
    header = arrived.documents[given.name]
    name = given.name
    value = getattr(arrived.written[name].properties, name) if arrived.written else given.value
    match IN_DOCUMENT[name]:
        case "the same":
            return bool(str(getattr(header.properties, name)) == str(value))
        case "always 2":
            return header.delivery_mode == 2
        case "not passed on" | "`@ExpiresAt`":
            return getattr(header.properties, name) is None
    return str((header.headers or {}).get(CARRIED[name])) == str(value)


def of_received_properties(received: Mapping[str, Mapping[str, Shown | None]]) -> Iterable[str]:
    """Yield a row for each property: whether a client shows it."""
    yield from _head("property", *received)
    for given in PROPERTIES:
        yield _row(f"`{given.name}`", *[_shown_property(each[given.name], given.value) for each in received.values()])


def _shown_property(found: Shown | None, value: str) -> str:
    if found is None:
        return "**fails**"
    if found == ["null"]:
        return "–"
    return "✓" if found[-1] == value else f"**{_text(found)}**"


def of_places(places: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """Yield a row for each property: where the interfaces of SEMQ show it."""
    yield from _head("property", *places)
    for given in PROPERTIES:
        found = [each[given.name] for each in places.values()]
        yield _row(f"`{given.name}`", *[f"`{place}`" if place else "–" for place in found])


def _head(*cells: str) -> Iterable[str]:
    yield _row(*cells)
    yield "|---" * len(cells) + "|"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _verdict(lost: list[str], otherwise: str) -> str:
    return f"**lost: {', '.join(lost)}**" if lost else otherwise


def _received_cell(found: Shown | None, value: Shown) -> str:
    if found is None:
        return "**fails**"
    if found == value:
        return "✓"
    return _text(found) if is_same(found, value) else f"**{_text(found)}**"


def _text(found: Shown) -> str:
    kind, *value = found
    if not value:
        return "nothing"
    match value[0]:
        case list() as parts:
            return f"[{', '.join(map(_text, parts))}]"
        case dict() as table:
            return f"{{{', '.join(f'{name}: {_text(each)}' for name, each in table.items())}}}"
    return f"{kind} {value[0]}".replace("|", "\\|")


def write(texts: Mapping[str, str]) -> None:
    """Replace the tables of the page."""
    page = PAGE.read_text("utf-8")
    for name, text in texts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{text}\n{end}{after}"
    PAGE.write_text(page, "utf-8")
