"""View of a document to a group: the message to each member, with its outcome. Read-only.

A submission to a group has no row of its own. The first ledger line of each member names the group and the member's
number, and the record ids of the members follow the record id of the submission (PROTOCOL.md section 2.1).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field
from sqlalchemy import Connection, select, text

from semq.answers.messages import MessageRow
from semq.store.rows import Event, GroupPlace, Side, read_group_place
from semq.store.tables import FIRST_LINE, RECORD_ID, semq_ledger, tb_0031
from semq.store.views import names
from semq.store.views.messages import OUT, outbound_facts
from semq.umx_t.errors import BadLocator
from semq.umx_t.locator import parse_lk0
from semq.umx_t.short_name import read_short_name, short_name
from semq.umx_t.status import Outcome

CONTINUES = "continues as "  # text written by ``engine.sender.resealing``
CONTINUED_MAX = 20  # times that one message may have been sealed again
FOUND_MAX = 100  # messages with the same record id that are examined
_ENDS = [Event[outcome.name] for outcome in Outcome]


def find_group(connection: Connection, name: str) -> MessageRow | None:
    """Return the members of a group submission and their outcomes; None if ``name`` denotes no such submission.

    A name is a short name, an LK0, or ``sql-NUMBER``.
    """
    first = _first_member(connection, name)
    if first is None:
        candidates = map(partial(_first_member, connection), names.known_as(connection, name, FOUND_MAX))
        first = next(filter(None, candidates), None)
    if first is None:
        return None
    lk0, count, target = first.lk0, first.members, first.target
    origin, _, number = lk0.rpartition(".")
    members = [_Member(f"{origin}.{int(number) + place}") for place in range(1, count + 1)]
    _read_lines(connection, members)
    by_lk0 = {member.lk0: member for member in members}
    numbers = [int(member_lk0.rpartition(".")[2]) for member_lk0 in by_lk0]
    query = select(tb_0031).where(OUT.object_id.in_(numbers), OUT.lk0.in_(by_lk0))
    for facts in map(outbound_facts, connection.execute(query)):
        by_lk0[facts["lk0"]].facts |= {
            column: facts[column] for column in ("target", "outcome", "ss_status", "reason") if facts[column]
        }
    # The lines of some members may have been deleted, with an old partition of the ledger.
    shown: Any = [
        {"name": short_name(member.lk0), "lk0": member.lk0, **member.facts}
        for member in members
        if "target" in member.facts
    ]
    return {"name": short_name(lk0), "lk0": lk0, "group": target, "members": shown}


class _Member(Struct):
    """The message to one member of a group."""

    lk0: str  #: the present one: it changes when the message is sealed again
    facts: dict[str, Any] = field(default_factory=lambda: {"outcome": None})


def _read_lines(connection: Connection, members: Sequence[_Member]) -> None:
    """Read targets and outcomes from the ledger; a message that was sealed again continues under another LK0."""
    c, by_lk0 = semq_ledger.c, {member.lk0: member for member in members}
    for _ in range(CONTINUED_MAX):
        renamed: dict[str, _Member] = {}
        query = select(c.lk0, c.event, c.target, c.detail).where(
            c.lk0.in_(by_lk0), c.side == Side.SENDER, c.event.in_([Event.ACCEPTED, Event.OPERATOR, *_ENDS])
        )
        for line in connection.execute(query.order_by(c.number)):
            member = by_lk0[line.lk0]
            if line.event == Event.ACCEPTED:
                member.facts["target"] = line.target
            elif line.event != Event.OPERATOR:
                member.facts["outcome"] = Event(line.event).name
            elif line.detail.startswith(CONTINUES):
                member.lk0 = line.detail.removeprefix(CONTINUES)
                renamed[member.lk0] = member
        by_lk0 = renamed
        if not by_lk0:
            return


def _first_member(connection: Connection, name: str) -> GroupPlace | None:
    """Return the GroupPlace of member 1 from its first ledger line; None: there is no such line."""
    short = read_short_name(name)
    try:
        number = short.object_id if short is not None else parse_lk0(name).object_id
    except BadLocator:
        return None
    line = text(
        f"SELECT detail FROM semq_ledger WHERE {RECORD_ID} = :number AND ({FIRST_LINE}) AND side = :side LIMIT :most"
    )
    parameters = {"number": str(number + 1), "side": int(Side.SENDER), "most": FOUND_MAX}
    for detail in connection.execute(line, parameters).scalars():
        place = read_group_place(detail)
        if place and place.member == 1 and (place.lk0 == name or (short is not None and short.fits(place.lk0))):
            return place
    return None
