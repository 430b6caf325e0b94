"""The pages of messages: search, one message with its time line, acts on it, and its payload."""

import asyncio
import base64
import codecs
import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, timedelta

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.answers.messages import MessagePage, MessageRow
from semq.console.acts import ACTS, possible
from semq.console.display import href, message_path, next_step_of, show, state_of, translator
from semq.console.live import LIVE
from semq.console.timeline import outlook_line, time_line
from semq.console.words import FACTS
from semq.engine.people.stuck import StuckCause
from semq.errors import SemqError
from semq.foreign_text import shown, shown_lines
from semq.moments import milliseconds, utc_text
from semq.service.message_names import message_name
from semq.sizes import size
from semq.status_words import WORDS
from semq.store.rows import Side
from semq.store.views.ended import ENDS, outcome_of
from semq.store.views.selection import PLACE, MessageFilter
from semq.umx_t.status import AppStatus, Outcome, SendStatus
from semq.web.errors import BadRequest
from semq.web.node.payloads import payload_chunks
from semq.web.pages.error_words import in_words
from semq.web.pages.templates import at, node_name
from semq.web.pages.visit import Visit, form, page
from semq.web.transport.bodies import ChunkedResponse

LEFT_OUT_FILTERS = ("since_ms", "until_ms", "pieces")
FILTERS = (*(name for name in MessageFilter.__struct_fields__ if name not in LEFT_OUT_FILTERS), "order")
PERIOD = ("from", "to")  # days
OUTCOMES = {  # by kind of node
    kind: list(dict.fromkeys(outcome_of(side, event) for side in sides for event in ENDS[side]))
    for kind, sides in {"local": (Side.SENDER, Side.RECEIVER), "platform": (Side.HUB,)}.items()
}
ROWS, CSV_ROWS = 50, 1000  # of a page
CSV_COLUMNS = ("at", "side", "sender", "receiver", "state", "type", "key", "size", "reason", "name", "lk0")
STATES = [*SendStatus.__members__, *Outcome.__members__, *AppStatus.__members__]
SHOWN_MAX = 64 << 10  # bytes of a payload on a page
TIMES = ("_at", "not_before", "waits_since")  # endings of names of times


async def messages(visit: Visit) -> Response:
    """Search the queues or the ended documents by filters, or find a message by its name."""
    filters = {name: visit.query.get(name, "").strip() for name in ("find", *FILTERS, *PERIOD)}
    outcomes = OUTCOMES[visit.web.settings.node.kind]
    shared = {"filters": filters, "states": STATES, "outcomes": outcomes, "live": LIVE}
    if filters["find"]:
        return await _by_name(visit, filters["find"], shared)
    chosen = {name: filters[name] for name in (*FILTERS, *PERIOD) if filters[name]}
    wanted = _wanted(visit, filters)
    continue_at = {name: visit.query[name] for name in PLACE if visit.query.get(name)}
    counted = {name: value for name, value in wanted.items() if name != "order"}
    answer, count = await asyncio.gather(
        visit.ask("msg.list", **wanted, **continue_at, limit=ROWS),
        visit.ask("msg.count", **counted) if filters["ended"] else _nothing(),
    )
    before = visit.number("before")
    after = before + len(answer["rows"])
    next_page = href("/messages", **(chosen | answer["next"]), before=after) if answer["next"] else None
    first = href("/messages", **chosen) if continue_at else None
    return show(
        visit, "messages.html", rows=answer["rows"], next=next_page, first=first, looked_at=answer["looked_at"],
        found=None, count=count, before=before, after=after, chosen=chosen,
        csv=href("/messages.csv", **chosen), other=_other(chosen), **shared,
    )  # fmt: skip


def _other(chosen: Mapping[str, str]) -> str:
    """Return the address of the same search in the ended documents, or of those that have not ended."""
    names = ("state", *PERIOD) if "ended" in chosen else ("state",)
    kept = {name: value for name, value in chosen.items() if name not in (*names, "ended")}
    return href("/messages", **kept, ended="" if "ended" in chosen else "true")


async def _nothing() -> None:
    """Return None: a page of the queues has no count."""


def _wanted(visit: Visit, filters: Mapping[str, str]) -> dict[str, object]:
    """Return the arguments of ``msg.list`` for the filters of a page; the period is that of whole days in UTC."""
    wanted: dict[str, object] = {name: filters[name] for name in FILTERS if filters[name]}
    today = visit.web.clock.wall().astimezone(UTC).date()
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    for name, argument, more in (("from", "since_ms", 0), ("to", "until_ms", 1)):
        if filters[name]:
            try:
                day = named.get(filters[name]) or date.fromisoformat(filters[name])
                wanted[argument] = milliseconds(f"{day + timedelta(days=more)}T00:00:00+00:00")
            except (ValueError, OverflowError) as error:
                raise BadRequest(
                    "A day is written like 2026-03-31, or today, or yesterday.", given=filters[name][:40]
                ) from error
    return wanted


async def csv_file(visit: Visit) -> Response:
    """Return all messages that fit as CSV, page by page."""
    filters = {name: visit.query.get(name, "").strip() for name in (*FILTERS, *PERIOD)}
    wanted = _wanted(visit, filters)
    page = await visit.ask("msg.list", **wanted, limit=CSV_ROWS)
    headers = {"content-disposition": 'attachment; filename="messages.csv"', "cache-control": "no-store"}
    return ChunkedResponse(_csv_pages(visit, wanted, page), None, headers, "text/csv; charset=utf-8", lambda: None)


async def _csv_pages(visit: Visit, wanted: Mapping[str, object], page: MessagePage) -> AsyncIterator[bytes]:
    yield ("\ufeff" + _csv_text([CSV_COLUMNS])).encode()
    while True:
        yield _csv_text(map(_csv_row, page["rows"])).encode()
        if page["next"] is None:
            return
        page = await visit.ask("msg.list", **wanted, **page["next"], limit=CSV_ROWS)


def _csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([_csv_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _csv_cell(cell: object) -> str:
    """Return a cell that no program for tables reads as a formula."""
    text = shown(str("" if cell is None else cell))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _csv_row(row: MessageRow) -> tuple[object, ...]:
    key = [*str(row.get("app_key") or "").split("/", 3), "", "", "", ""]
    reason = " ".join(map(str, row.get("reason") or ()))
    return (
        utc_text(row["at"]), row["side"], node_name(row.get("source")), node_name(row.get("target")), state_of(row),
        key[1], key[3], row.get("size"), reason, message_name(row), row["lk0"],
    )  # fmt: skip


async def _by_name(visit: Visit, name: str, shared: Mapping[str, object]) -> Response:
    try:
        row = await visit.ask("msg.show", id=name)
    except SemqError as error:
        if not error.code.startswith(("SEMQ-1", "SEMQ-2")):
            raise
        return show(
            visit, "messages.html", rows=[], next=None, first=None, looked_at=0, found=0, count=None, before=0, after=0,
            chosen={}, csv=None, other=None, **shared,
        )  # fmt: skip
    return visit.see_other(message_path(row))


async def message(visit: Visit) -> Response:
    """Show a message; for a document to a group, its members."""
    _ = translator(visit)
    name, parties = visit.request.path_params["name"], visit.query.get("parties") == "1"
    row = await visit.ask("msg.show", id=name)
    if "members" in row:
        pairs = [(_("short name"), message_name(row)), (_("locator (LK0)"), row["lk0"]), *row["summary"].items()]
        return show(visit, "group.html", row=row, pairs=pairs, live=LIVE)
    traced = await visit.ask("msg.trace", id=name, parties=True if parties else None)
    outlook = []
    if not row.get("cleaned"):
        outlook = (await visit.ask("msg.outlook", id=row["lk0"]))["sides"]
    is_hub = visit.web.settings.node.kind == "platform"
    line = time_line(_, traced["events"])
    causes = []
    for side in outlook:
        cause = StuckCause.__members__.get(str(side["cause"]))
        if cause is not None:
            step = next_step_of(_, row | {"side": side["side"], "stuck": side})
            causes.append({"cause": side["cause"], "meaning": _(cause.meaning), "step": step})
        if side["waits_for"] != "nothing":
            line.append(outlook_line(_, side, is_hub, row.get("not_before")))
    path, steps = message_path(row), " ".join(cause["step"] for cause in causes)
    has_all_lines = parties or row.get("submission") is not None
    has_payload = not row.get("cleaned") and bool(row.get("has_payload", True)) and not is_hub
    return show(
        visit, "message.html", row=row, line=line, causes=causes, others=traced.get("others") or [],
        unanswered=traced.get("unanswered") or [], later=None if has_all_lines else href(path, parties=1), live=LIVE,
        sender=row.get("source") or "", receiver=str(row.get("target") or "").partition("/")[0],
        acts={name: ACTS[name] for name in possible(row, steps, is_hub=is_hub)}, pairs=list(_facts(visit, row)),
        has_payload=has_payload,
    )  # fmt: skip


def _facts(visit: Visit, row: MessageRow) -> Iterator[tuple[str, object]]:
    _ = translator(visit)
    yield _("short name"), message_name(row)
    yield _("locator (LK0)"), row["lk0"]
    for name, word in (("source", _("sender")), ("target", _("receiver"))):
        yield word, node_name(row.get(name))
    yield _("business key (AppKey)"), row.get("app_key")
    yield _("size"), size(row.get("size"))
    if reason := row.get("reason"):  # of a message without a row it is the text of the ledger
        yield _("reason"), in_words(_, reason if isinstance(reason, str) else " ".join(map(str, reason)))
    for name, word in FACTS.items():
        value = row.get(name)
        if value in (None, "", False, [], {}) or (name == "last_event" and value == row.get("outcome")):
            continue
        words = WORDS.get(str(value))
        yield (
            _(word),
            at(value)
            if name.endswith(TIMES)
            else _("yes")
            if value is True
            else (f"{value}{_(': ')}{_(words)}" if words else str(value)),
        )


async def payload(visit: Visit) -> Response:
    """Show the payload of a message, or return it as a file."""
    fields = await visit.form()
    web = visit.web
    space = await web.memory.reserve(web.settings.protocol.max_document_bytes, visit.visitor.key)
    try:
        answer = await visit.ask("msg.body", id=str(fields.get("id", "")), offset=0)
    except BaseException:
        space.release()
        raise
    if fields.get("how") == "save":
        name = re.sub(r"[^0-9A-Za-z-]", "_", str(answer["name"]))
        headers = {
            "content-disposition": f'attachment; filename="{name}.bin"', "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }  # fmt: skip
        chunks, size_bytes = payload_chunks(web.client, visit.visitor.name, answer)
        return ChunkedResponse(chunks, size_bytes, headers, "application/octet-stream", space.release)
    space.release()
    text, is_hex = _readable(base64.b64decode(answer["body_base64"])[:SHOWN_MAX])
    response = show(
        visit, "payload.html", name=answer["name"], digest=answer["digest"], size_bytes=answer["size"], text=text,
        is_hex=is_hex, is_cut=answer["size"] > SHOWN_MAX, back=message_path(answer),
    )  # fmt: skip
    response.headers["cache-control"] = "no-store"
    return response


def _readable(body: bytes) -> tuple[str, bool]:
    """Return a payload as text or, if it is not UTF-8, in hexadecimal; and whether it is hexadecimal."""
    try:
        # The last character of a long payload may be cut off.
        text = codecs.getincrementaldecoder("utf-8")().decode(body, final=len(body) < SHOWN_MAX)
    except UnicodeDecodeError:
        return body.hex(" "), True
    if "\0" in text:
        return body.hex(" "), True
    return "\n".join(shown_lines(text.replace("\r\n", "\n"), SHOWN_MAX)), False


ROUTES = [
    page("/messages", messages),
    page("/messages.csv", csv_file),
    form("/messages/payload", payload, role=AccessRole.PAYLOAD),
    page("/messages/{name}", message),
]
