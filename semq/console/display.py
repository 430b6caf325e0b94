"""Rendering of pages: ``show``, and the functions that templates call. Times are in UTC."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response

from semq.console.acts import ACTS
from semq.console.details import detail_words
from semq.durations import duration
from semq.engine.people.stuck import StuckCause
from semq.service.message_names import document_label, message_name
from semq.sizes import size
from semq.status_words import WORDS
from semq.umx_t.status import Direction
from semq.web.pages.templates import at, milliseconds_of, node_name
from semq.web.pages.visit import Visit

Row = Mapping[str, Any]
# Statuses by the colour of their tag.
GOOD = frozenset({"SS_ACK2", "DELIVERED", "DONE", "AS_ACK", "RECV"})
WARN = frozenset({"SS_INIT", "WAITS", "SUBMITTED", "NEW", "UNKNOWN", "CANCELLED", "VOID", "DROPPED"})
BAD = frozenset({"REJECTED", "PARKED", "LOST", "REFUSED", "REJ"})


def translator(visit: Visit) -> Callable[[str], str]:
    """Return a function that translates into the language of a visit."""
    return visit.translator()


def now_ms(visit: Visit) -> int:
    """Return the present time in milliseconds since 1970 UTC."""
    return round(visit.web.clock.wall().timestamp() * 1000)


def show(visit: Visit, template: str, **context: Any) -> Response:
    """Return a page made from a template."""
    _ = translator(visit)
    now = now_ms(visit)
    functions: dict[str, Any] = {
        "at": at, "size": size, "state_of": state_of, "colour_of": colour_of, "document_label": document_label,
        "href": href,
        "node_name": node_name, "message_name": message_name, "percent": percent, "as_of": now,
        "ago": lambda value: ago(_, value, now),
        "span": span,
        "words": lambda value: _(WORDS.get(str(value), str(value))),
        "next_step_of": lambda row: next_step_of(_, row),
        "act_label": lambda name: _(ACTS[name].label if name in ACTS else name),
        "message_path": message_path, "error_of": error_of, "detail_words": lambda text: detail_words(_, text),
    }  # fmt: skip
    return visit.render(template, **(functions | context))


def span(seconds: object) -> str:
    """Return a duration as text; empty if ``seconds`` is not a number."""
    return duration(seconds) if isinstance(seconds, int | float) else ""


def ago(_: Callable[[str], str], value: object, now: int) -> str:
    """Return the time since a moment, or until a moment in the future, in words."""
    try:
        seconds = (now - milliseconds_of(value)) / 1000
    except (ValueError, TypeError, OverflowError):
        return ""
    if abs(seconds) < 1:
        return _("now")
    text = _("in %(time)s") if seconds < 0 else _("%(time)s ago")
    return text % {"time": duration(int(abs(seconds)))}


def percent(part: float, total: float) -> int:
    """Return a part of a total in percent, from 0 to 100."""
    return 0 if total <= 0 else max(0, min(100, int(100 * part / total)))


def state_of(row: Row) -> str:
    """Return the outcome of a message, else its status, else an empty text."""
    for name in ("outcome", "ss_status", "app_status", "state", "status", "last_event"):
        if row.get(name):
            return str(row[name])
    return ""


def colour_of(state: object) -> str:
    """Return the colour of a status: good, warn, bad, or an empty text."""
    text = str(state)
    return "good" if text in GOOD else "bad" if text in BAD else "warn" if text in WARN else ""


def href(path: str, **query: object) -> str:
    """Return the address of a page with the non-empty values of a query."""
    present = [(name, str(value)) for name, value in query.items() if value not in (None, "", False)]
    return f"{path}?{urlencode(present)}" if present else path


def message_path(row: Row) -> str:
    """Return the address of the page of one message."""
    return "/messages/" + quote(str(row.get("lk0") or row.get("name")), safe="")


def error_of(row: Row) -> str:
    """Return the error of a failed document, with the code of its reason at the beginning."""
    code, *texts = row.get("reason") or ("",)
    text = str(row.get("error") or next(iter(texts), ""))
    return text if text.startswith(str(code)) else f"{code} {text}"


def next_step_of(_: Callable[[str], str], row: Row) -> str:
    """Return the next step for a stuck message, translated."""
    stuck = row.get("stuck") or {}
    cause = StuckCause.__members__.get(str(stuck.get("cause")))
    if cause is None:
        return str(stuck.get("next_step") or "")
    at_hub = row.get("direction") == Direction.RELAYED.name
    step = str(cause.value[-1] if at_hub else cause.value[1])
    partner = row["source"] if row["side"] == "inbound" else row["target"]
    return _(step).format(id=row["name"], node=node_name(str(partner).partition("/")[0]))
