"""The pages of messages: search, one message with its time line, acts on it, and its payload."""

import base64
import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console.display import at, href, message_path, next_step_of, node_name, show, translator
from semq.console.live import LIVE
from semq.console.timeline import outlook_line, time_line
from semq.engine.people.stuck import StuckCause
from semq.errors import SemqError
from semq.foreign_text import shown_lines
from semq.service.message_names import message_name
from semq.sizes import size
from semq.store.views.selection import PLACE, MessageFilter
from semq.umx_t.status import AppStatus, Outcome, SendStatus
from semq.web.node.payloads import payload_chunks
from semq.web.pages.visit import Visit, form, page
from semq.web.transport.bodies import ChunkedResponse

LEFT_OUT_FILTERS = ("since_ms", "until_ms", "pieces")
FILTERS = (*(name for name in MessageFilter.__struct_fields__ if name not in LEFT_OUT_FILTERS), "order")
STATES = [*SendStatus.__members__, *Outcome.__members__, *AppStatus.__members__]
SHOWN_MAX = 64 << 10  # bytes of a payload on a page
# Fields that the list of facts leaves out
LEFT_OUT = frozenset({"at", "id", "error", "stuck", "cleaned", "overdue", "has_payload", "name", "direction"})


async def messages(visit: Visit) -> Response:
    """Search the queues by filters, or find a message by its name."""
    filters = {name: visit.query.get(name, "").strip() for name in ("find", *FILTERS)}
    shared = {"filters": filters, "states": STATES, "live": LIVE}
    if filters["find"]:
        return await _by_name(visit, filters["find"], shared)
    continue_at = {name: visit.query[name] for name in PLACE if visit.query.get(name)}
    chosen = {name: filters[name] for name in FILTERS if filters[name]}
    answer = await visit.ask("msg.list", **chosen, **continue_at, limit=50)
    next_page = href("/messages", **(chosen | answer["next"])) if answer["next"] else None
    first = href("/messages", **chosen) if continue_at else None
    return show(
        visit, "messages.html", rows=answer["rows"], next=next_page, first=first, looked_at=answer["looked_at"],
        found=None, **shared,
    )  # fmt: skip


async def _by_name(visit: Visit, name: str, shared: Mapping[str, Any]) -> Response:
    try:
        row = await visit.ask("msg.show", id=name)
    except SemqError as error:
        if not error.code.startswith(("SEMQ-1", "SEMQ-2")):
            raise
        return show(visit, "messages.html", rows=[], next=None, first=None, looked_at=0, found=0, **shared)
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
            line.append(outlook_line(_, side | {"next_step": ""}, is_hub))
    path = message_path(row)
    has_all_lines = parties or row.get("submission") is not None
    has_payload = not row.get("cleaned") and bool(row.get("has_payload", True)) and not is_hub
    return show(
        visit, "message.html", row=row, line=line, causes=causes, others=traced.get("others") or [],
        unanswered=traced.get("unanswered") or [], later=None if has_all_lines else href(path, parties=1), live=LIVE,
        sender=row.get("source") or "", receiver=str(row.get("target") or "").partition("/")[0],
        acts=list(_acts(_, row, is_hub)), pairs=list(_facts(visit, row)), has_payload=has_payload,
    )  # fmt: skip


def _acts(_: Callable[[str], str], row: Mapping[str, Any], is_hub: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the acts that may be possible on a message: name, label, and style of the button."""
    if row.get("cleaned") or row.get("outcome") is not None:
        return
    if not row.get("submission"):
        yield "inquire", _("Inquire now"), "plain"
    if row["side"] == "inbound":
        return
    if not row.get("submission"):
        yield "resend", _("Send again"), "plain"
    if row.get("held") and not is_hub:
        yield "release", _("Release"), ""
    elif row.get("ss_status") == SendStatus.SS_INIT.name and not is_hub:
        yield "hold", _("Hold"), "plain"
    if not is_hub:
        yield "cancel", _("Cancel the document"), "danger"


def _facts(visit: Visit, row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    _ = translator(visit)
    yield _("short name"), message_name(row)
    yield _("locator (LK0)"), row["lk0"]
    for name, word in (("source", _("sender")), ("target", _("receiver"))):
        yield word, node_name(row.get(name))
    yield _("business key"), row.get("app_key")
    yield _("size"), size(row.get("size"))
    if row.get("reason"):
        yield _("reason"), " ".join(map(str, row["reason"]))
    for name, value in sorted(row.items()):
        if name in LEFT_OUT or name in ("lk0", "source", "target", "app_key", "size", "reason", "side"):
            continue
        if value in (None, "", False, [], {}):
            continue
        yield name, at(value) if name.endswith("_at") else _("yes") if value is True else str(value)


async def act(visit: Visit) -> Response:
    """Apply an act to a message, then show the message."""
    _ = translator(visit)
    fields = await visit.form()
    name, act_name = str(fields.get("id", "")), str(fields.get("act", ""))
    why = str(fields.get("why", "")).strip()
    back = "/messages/" + quote(name, safe="")
    acts = _acts_by_name(_)
    if act_name not in acts:
        return visit.see_other(back, _("There is no such act."))
    operation, needs_reason, notice = acts[act_name]
    if needs_reason and not why:
        return visit.see_other(back, _("Nothing was done: give a reason."))
    reason = {} if act_name == "inquire" else {"why": why or None}
    answer = await visit.ask(operation, id=name, **reason)
    return visit.see_other(back, _("The submission was withdrawn.") if answer.get("withdrawn") else notice)


def _acts_by_name(_: Callable[[str], str]) -> dict[str, tuple[str, bool, str]]:
    """Return the acts on a message: operation, whether it needs a reason, notice of success."""
    return {
        "inquire": ("msg.inquire", False, _("The node inquires about the message now.")),
        "resend": ("msg.resend", True, _("Another copy is sent: same name, same bytes.")),
        "hold": ("msg.hold", True, _("The message is held back.")),
        "release": ("msg.release", False, _("The message is released.")),
        "cancel": (
            "msg.cancel", True,
            _("Cancellation was requested. It succeeds if it reaches the receiver's ledger before the document."),
        ),
    }  # fmt: skip


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
    form("/messages/act", act, role=AccessRole.OPERATOR),
    form("/messages/payload", payload, role=AccessRole.PAYLOAD),
    page("/messages/{name}", message),
]
