"""The page docs/clients.md: its tables stand between two markers."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.interop.matrix.programs import Arrived
from tests.interop.matrix.values import RECEIVED, SENT, Shown, decoded, expected, is_same, shown

PAGE = Path(__file__).parents[3] / "docs" / "clients.md"
BEGIN, END = "<!-- clients -->", "<!-- end of clients -->"
NOTHING_LOST = "nothing lost"


def tables(sent: Mapping[str, Arrived], received: Mapping[str, Mapping[str, Shown | None]]) -> str:
    """Return both tables."""
    return "\n".join([*of_senders(sent), "", *of_receivers(received)])


def of_senders(sent: Mapping[str, Arrived]) -> Iterable[str]:
    """Yield a row for each value: the letter that a client writes, and the value if it is another one."""
    names = list(sent)
    yield f"| value | {' | '.join(names)} | SEMQ |"
    yield "|---" * (len(names) + 2) + "|"
    for given in SENT:
        cells = [_sent_cell(sent[name], given.name, expected(given)) for name in names]
        lost = [name for name in names if given.name in sent[name].changed]
        verdict = f"**lost: {', '.join(lost)}**" if lost else NOTHING_LOST
        yield f"| {given.name} | {' | '.join(cells)} | {verdict} |"


def _sent_cell(arrived: Arrived, name: str, value: Shown) -> str:
    field = arrived.fields.get(name)
    if name in arrived.errors or not field:
        return "–"
    letter, found = chr(field[0]), shown(decoded(field))
    return f"`{letter}`" if is_same(found, value) else f"`{letter}` **{_text(found)}**"


def of_receivers(received: Mapping[str, Mapping[str, Shown | None]]) -> Iterable[str]:
    """Yield a row for each encoded value: what a client shows, if it is another value."""
    names = list(received)
    yield f"| letter and value | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for name, field in RECEIVED.items():
        value = shown(decoded(field))
        cells = [_received_cell(received[each].get(name), value) for each in names]
        yield f"| `{name[0]}`{name[1:]} | {' | '.join(cells)} |"


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


def write(text: str) -> None:
    """Replace the tables of the page."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")
