"""The search for a message by any name of ``semq.store.views.names``, and the outcomes of messages that have left the
queues, from the ledger.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from semq.answers.messages import MessageRow, TracedLine
from semq.engine.errors import Cancelled, NotAccepted, NotThere, TooLate
from semq.moments import moment_text, utc_text
from semq.service.errors import BadArguments
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Event
from semq.store.views import groups, messages, names
from semq.umx_t.short_name import read_short_name, short_name
from semq.umx_t.status import Direction, Outcome

# Side of a ledger line | the events that end a message for this side
FINAL_EVENTS: dict[str, frozenset[str]] = {
    "sender": frozenset({"DELIVERED", "REJECTED", "CANCELLED", "LOST", "UNKNOWN", "DROPPED"}),
    "hub": frozenset({"RELEASED", "FORWARDED", "DROPPED"}),
    "receiver": frozenset({"DONE", "REJECTED", "CANCELLED"}),
}
SIDES = {"sender": "outbound", "hub": "relayed", "receiver": "inbound"}
SHOWN_MAX = 5  # messages in the error for a name of several
# Runs a view of the node's database, as the store of a node and the web process do.
FindRows = Callable[[Callable[..., list[MessageRow]], str], Awaitable[list[MessageRow]]]
FACTS_OF_ANY_LINE = ("target", "app_key", "digest", "size")


async def find_one(store: PostgresStore, name: str) -> list[MessageRow]:
    """Return the rows of a message: one, or two if the institution sent the message to itself.

    If a key fits several messages, the newest is meant. Raises NotThere, TooLate if the message has ended and the rows
    are deleted, BadArguments if a number or a short name fits several messages.
    """
    rows = await store.execute(names.find_messages, name)
    if not rows:
        raise error_for_ended(await past_record(store, name))
    lk0 = newest_first(name, [row["lk0"] for row in rows], rows)[0]
    return [row for row in rows if row["lk0"] == lk0]


async def find_accepted(store: PostgresStore, name: str) -> list[MessageRow]:
    """Like ``find_one``, but raise NotAccepted for a submission that is not accepted."""
    rows = await find_one(store, name)
    if rows[0].get("submission"):
        raise NotAccepted(name=rows[0]["name"], waits_for=" ".join(rows[0].get("reason") or ()))
    return rows


async def find_open(store: PostgresStore, name: str) -> MessageRow:
    """Return the row of an unfinished message that this node sends.

    Raises NotThere, NotAccepted, TooLate, BadArguments.
    """
    rows = await find_accepted(store, name)
    for row in rows:
        if row.get("direction") == Direction.OWN.name:
            if row["outcome"] is not None:
                raise error_for_ended(await past_record(store, row["lk0"]))
            return row
    raise NotThere("This node has not sent the document; only the sender's node can do this.", **_names(rows[0]["lk0"]))


async def find_group(store: PostgresStore, name: str) -> MessageRow | None:
    """Return a group submission with a summary of outcomes; None if no group has the name.

    ``outcome`` is None until all messages of the group have ended. Then it is DELIVERED, or the first other outcome.
    """
    group = await store.execute(groups.find_group, name)
    if group is None:
        return None
    members = group["members"]
    counts = Counter(str(member["outcome"] or member.get("ss_status") or "") for member in members)
    failed = [member for member in members if member["outcome"] not in (None, Outcome.DELIVERED.name)]
    facts: MessageRow = {**group, "side": "outbound", "summary": dict(counts), "outcome": None}
    if members and all(member["outcome"] for member in members):
        facts["outcome"] = failed[0]["outcome"] if failed else Outcome.DELIVERED.name
        facts["reason"] = failed[0].get("reason") if failed else None
    return facts


async def past_record(store: PostgresStore, name: str) -> MessageRow:
    """Return a message's record from the ledger. Raises NotThere, BadArguments."""
    lk0 = newest_first(name, await store.execute(names.find_in_ledger, name))[0]
    return record_from_ledger(lk0, await store.execute(messages.trace, lk0))


def record_from_ledger(lk0: str, lines: Sequence[TracedLine]) -> MessageRow:
    """Build a message's record from ledger lines, with ``last_event`` and ``ended_at`` if the message has ended here.

    ``outcome`` is None except at the sender.
    """
    facts: dict[str, object] = {"name": short_name(lk0), "lk0": lk0, "cleaned": True, "outcome": None}
    facts["source"] = ".".join(lk0.split(".")[:2])
    is_accepted = False
    for line in lines:
        for name in FACTS_OF_ANY_LINE:
            if (value := line.get(name)) and name not in facts:
                facts[name] = value
        side, event = str(line["side"]), str(line["event"])
        is_accepted = is_accepted or event == Event.ACCEPTED.name
        # A refusal before the acceptance ends a submission; a later one is about a copy.
        is_refusal = side == "sender" and event == Event.REFUSED.name and not is_accepted
        if is_refusal or event in FINAL_EVENTS.get(side, ()):
            facts |= {"side": SIDES[side], "last_event": event, "ended_at": line["at"]}
            detail = str(line.get("detail") or "")
            facts["reason"] = detail if detail.startswith("SEMQ-") else None
            if is_refusal:
                facts["outcome"] = (Outcome.CANCELLED if detail.startswith(Cancelled.code) else Outcome.REJECTED).name
            elif side == "sender":
                facts["outcome"] = event
    return cast(MessageRow, facts)


def error_for_ended(facts: MessageRow) -> NotThere | TooLate:
    """Return the error for an act on a message that has ended or left the queues."""
    event, message_names = facts.get("last_event"), _names(facts["lk0"])
    if event is None:
        return NotThere("The document is in the ledger, but in no queue of this node.", **message_names)
    at = utc_text(facts["ended_at"])
    words, outcome = messages.WORDS[Event[event]], facts.get("outcome") or event
    if event == Event.REFUSED.name and facts["outcome"] is not None:
        words = "it was not sent"
    text = f"The document has ended here: {outcome} ({words}) at {at}."
    return TooLate(text, **message_names, outcome=outcome, ended_at=at)


def newest_first(name: str, lk0s: Sequence[str], rows: Sequence[Mapping[str, object]] = ()) -> list[str]:
    """Return found messages, each once: first the one with this short name, the others in the order of ``lk0s``.

    ``rows``: see ``fits_several``. Raises NotThere, and BadArguments if a number or a short name fits several messages.
    """
    fitting = list(dict.fromkeys(lk0s))
    if not fitting:
        raise NotThere(id=name)
    short = read_short_name(name)
    by_short_name = [lk0 for lk0 in fitting if short is not None and short.fits(lk0)]
    if len(by_short_name) > 1:
        raise BadArguments("The short name fits several documents.", found=by_short_name[:SHOWN_MAX]).with_remedy(
            "`semq msg show LK0` shows each of them; repeat the command with one of these LK0s."
        )
    if len(fitting) > 1 and name.isdecimal():
        raise fits_several("The number fits several documents.", fitting, rows)
    return by_short_name + [lk0 for lk0 in fitting if lk0 not in by_short_name]


def fits_several(text: str, lk0s: Sequence[str], rows: Sequence[Mapping[str, Any]] = ()) -> BadArguments:
    """Return the error for a name of several messages, with their short names and sources.

    ``rows`` has ``lk0`` and ``at``, in milliseconds, of messages whose time is also named.
    """
    moments = {row["lk0"]: f" at {moment_text(row['at'])}" for row in rows}
    found = [
        f"{short_name(lk0) or lk0} from {'.'.join(lk0.split('.')[:2])}{moments.get(lk0, '')}"
        for lk0 in lk0s[:SHOWN_MAX]
    ]
    return BadArguments(text, found=found).with_remedy(
        "`semq msg show NAME` shows each of them; repeat the command with the name of the one that you mean."
    )


def _names(lk0: str) -> dict[str, str]:
    return {"name": short_name(lk0), "lk0": lk0}


def message_name(row: Mapping[str, object]) -> str:
    """Return the short name of a message; without one, its locator."""
    return str(row.get("name") or short_name(str(row.get("lk0") or "")) or row.get("lk0") or "")


def document_label(row: Mapping[str, object]) -> str:
    """Return type and key of a document; without a key, its AppKey or else its short name."""
    parts = str(row.get("app_key") or "").split("/", 3)
    if len(parts) == 4 and parts[3]:
        return " ".join(part for part in (parts[1], parts[3]) if part)
    return str(row.get("app_key") or "") or message_name(row)


def full_label(row: Mapping[str, object]) -> str:
    """Return type, key and short name of a document."""
    return " ".join(dict.fromkeys((document_label(row), message_name(row))))


async def with_document_names(find: FindRows, given: Mapping[str, Any], at_most: int) -> dict[str, object]:
    """Return the arguments of an act as the audit log has them: ``documents`` by type, key and short name instead of
    their names in ``id`` or ``ids``, of which the first ``at_most`` are looked up. A number is that of a received
    document. Names that are gone stay.
    """
    ids = list(map(str, [given["id"]] if "id" in given else given.get("ids") or ()))
    labels = []
    for name in ids[:at_most]:
        rows = await find(names.find_messages, name)
        rows.sort(key=lambda row: (row["side"] == "inbound") is not name.isdecimal())
        labels.append(full_label(rows[0]) if rows else name)
    others = {name: value for name, value in given.items() if name not in ("id", "ids")}
    return {"documents": [*labels, *ids[at_most:]], **others} if ids else others
