"""The judge: compares what was promised with what the other side's application wrote down; looks into the databases.

It shares nothing with the nodes but the names of their tables. ``judge`` looks at documents and ledgers, ``leftovers``
counts what a node must have forgotten once everything is settled.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from semq.seal.errors import CertificateUnvouched, SignerGone, SignerUnknown
from semq.store.rows import Event, Side
from tests.crash.book import Book, Entry
from tests.crash.documents import MUST, Document, Stream
from tests.crash.world import NODES, OTHER, SIDES, World

# Empty as soon as everything is settled. What stays: ledgers of events, streams, tokens, the window of class 1 and 2.
CLEAN = (
    "tb_0031",
    "tb_0031_body",
    "tb_0031_submit",
    "tb_0030",
    "tb_0030_body",
    "tb_0030_ledger",
    "tb_0030_done",
)
# What was refused for want of a key stays for a person to see; its document has come again as another message.
# A document of class 2 in clear, which is never sent again, stays so at its sender.
STAYS = {
    "tb_0031": f" WHERE save_fwd <> 2 OR reason_code IS DISTINCT FROM '{SignerGone.code}'",
    "tb_0031_body": " WHERE object_id NOT IN ("
    f"SELECT object_id FROM tb_0031 WHERE save_fwd = 2 AND reason_code = '{SignerGone.code}')",
    "tb_0030": f" WHERE reason_code IS DISTINCT FROM '{SignerGone.code}'",
    "tb_0030_body": f" WHERE bref NOT IN (SELECT bref FROM tb_0030 WHERE reason_code = '{SignerGone.code}')",
}
# A new certificate can be overtaken by what it signed; after a revocation there is nobody to vouch for the next one,
# and a document that was signed with the revoked key is refused aloud and comes again as another message.
EXPECTED = [f"{error.code} %" for error in (SignerUnknown, SignerGone, CertificateUnvouched)]
EXPECTED += ["% more violations of this peer within %"]  # of those above: any other has a line of its own first
# Lines that no fault of this campaign may bring about.
NEVER = (Event.REFUSED, Event.MISMATCH, Event.VIOLATION, Event.PARKED, Event.VOIDED)
ENDS = (Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED)
SHOWN_MAX = 20


@dataclass
class Findings:
    """What is wrong, in words."""

    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    unclean: dict[str, int] = field(default_factory=dict)  #: node.table: rows

    @property
    def good(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.lost or self.duplicated or self.violations or self.unclean)

    def lines(self) -> list[str]:
        """For people."""
        named = [("lost", self.lost), ("duplicated", self.duplicated), ("violation", self.violations)]
        found = [f"{name}: {what}" for name, items in named for what in items[:SHOWN_MAX]]
        return found + [f"unclean: {rows} rows in {table}" for table, rows in self.unclean.items()]


def has_all(world: World) -> bool:
    """Whether the applications have all accepted documents of class 3."""
    return all(
        world.books[OTHER[side]].knows([d.token for d in world.streams[side].must_arrive()])
        == sum(1 for _ in world.streams[side].must_arrive())
        for side in SIDES
    )


def judge(world: World) -> Findings:
    """Everything but cleanliness; only after the applications and nodes have come to rest."""
    found = Findings()
    for side in SIDES:
        again = _judge_own_ledger(side, world.streams[side], _url(world, side), found)
        _judge_book(world.streams[side], world.books[OTHER[side]], again, found)
    # A document refused for want of a key ends by a marker; the sender's own ledger judges its end.
    never = [event for event in NEVER if not (world.secure and event is Event.VOIDED)]
    for node in NODES:
        _judge_any_ledger(node, _url(world, node), found, never)
        _judge_log(node, world.nodes[node].log, found)
    found.violations += world.complaints
    return found


def leftovers(world: World) -> dict[str, int]:
    """Rows in tables that should be empty."""
    found = {}
    for node in NODES:
        with psycopg.connect(_url(world, node)) as connection:
            for table in CLEAN:
                rows = _one(connection, f"SELECT count(*) FROM {table}{STAYS.get(table, '')}")
                if rows:
                    found[f"{node}.{table}"] = rows
    return found


def steps(world: World) -> int:
    """Durable steps that the nodes took, by their ledgers."""
    total = 0
    for node in NODES:
        with psycopg.connect(_url(world, node)) as connection:
            total += _one(connection, "SELECT count(*) FROM semq_ledger")
    return total


def dump(world: World) -> str:
    """What is left over, row by row, for whoever looks for the cause."""
    text = []
    for node in NODES:
        with psycopg.connect(_url(world, node)) as connection:
            for table in (
                "tb_0031",
                "tb_0030",
                "tb_0030_ledger",
                "tb_0030_stream",
                "tb_0031_stream",
                "semq_incarnation",
            ):
                rows = connection.execute(f"SELECT row_to_json(t)::text FROM {table} t LIMIT 200").fetchall()
                text += [f"{node}.{table}: {row[0]}" for row in rows]
    return "\n".join(text)


# ------------------------------------------------------------ the applications' view


def _judge_book(stream: Stream, book: Book, again: set[int], found: Findings) -> None:
    received = book.tokens()
    accepted = {document.token: document for document in stream.accepted}
    for document in stream.must_arrive():
        entries = received.get(document.token, [])
        if not entries:
            found.lost.append(_named(document))
        elif len(entries) > 1:
            found.duplicated.append(f"{_named(document)} received as {[entry.lk0 for entry in entries]}")
    for token, entries in received.items():
        origin = accepted.get(token)
        if origin is None:
            found.violations.append(f"{token} was received and never accepted")
        elif any(entry.digest != origin.digest for entry in entries):
            found.violations.append(f"{_named(origin)} arrived with other octets")
        elif origin.save_fwd != MUST and len(entries) > 1:
            found.duplicated.append(f"{_named(origin)} received as {[entry.lk0 for entry in entries]}")
    found.duplicated += [f"{token} ({lk0}) repeated without a flag" for lk0, token in book.repeats(flagged=False)]
    found.violations += [f"{token} ({lk0}) repeated with other octets" for lk0, token in book.altered()]
    # What was sealed again takes its place at the end (rewrapping): only what went on its first way keeps the order.
    _judge_order([entry for entry in book.in_order() if _number(entry.token) not in again], found)


def _judge_order(entries: list[Entry], found: Findings) -> None:
    """Tokens end in the number of submission; within an order key they must climb."""
    last: dict[str, int] = {}
    for entry in entries:
        number = _number(entry.token)
        before = last.get(entry.order_key, 0)
        if number < before:
            found.violations.append(f"{entry.token} of order key {entry.order_key} came after number {before}")
        last[entry.order_key] = max(number, before)


def _number(token: str) -> int:
    return int(token.rpartition("-")[2])


def _named(document: Document) -> str:
    order = f" order key {document.order_key}" if document.order_key else ""
    return f"{document.token} @SaveFwd={document.save_fwd} @Ack2={document.ack2}{order}"


# ------------------------------------------------------------ the nodes' own ledgers


def _judge_own_ledger(side: str, stream: Stream, url: str, found: Findings) -> set[int]:
    """Each document accepted once, each of class 3 delivered once and nothing else; or refused for want of a key, and
    accepted again by the node itself. The numbers of the latter."""
    again: set[int] = set()
    with psycopg.connect(url) as connection:
        accepted = connection.execute(
            "SELECT lk0, app_key, detail FROM semq_ledger WHERE side = %s AND event = %s ORDER BY number",
            (Side.SENDER, Event.ACCEPTED),
        ).fetchall()
        ended = connection.execute(
            "SELECT lk0, event FROM semq_ledger WHERE side = %s AND event = ANY(%s)",
            (Side.SENDER, [int(event) for event in ENDS]),
        ).fetchall()
    numbers: dict[int, list[str]] = {}
    sealed_again = {lk0 for lk0, _, detail in accepted if ", sealed for key " in detail}
    for lk0, app_key, _ in accepted:
        numbers.setdefault(int(app_key), []).append(lk0)
    ends: dict[str, list[Event]] = {}
    for lk0, event in ended:
        ends.setdefault(lk0, []).append(Event(event))
    for document in stream.accepted:
        lk0s = numbers.get(document.number, [])
        *before, last = lk0s or [""]
        if before and sealed_again.issuperset(lk0s[1:]):
            again.add(document.number)
        elif len(lk0s) != 1:
            found.violations.append(f"{_named(document)} was accepted as {lk0s} at {side}")
            continue
        names = [event.name for lk0 in lk0s for event in ends.get(lk0, [])]
        if document.save_fwd == MUST and names != ["REJECTED"] * len(before) + ["DELIVERED"]:
            found.violations.append(f"{_named(document)} ({last}) ended as {names} at {side}")
    return again


def _judge_any_ledger(node: str, url: str, found: Findings, never: Sequence[Event]) -> None:
    """Nothing recorded twice, no alarm raised."""
    with psycopg.connect(url) as connection:
        twice = connection.execute(
            "SELECT lk0, count(*) FROM semq_ledger WHERE side = %s AND event = %s GROUP BY lk0 HAVING count(*) > 1",
            (Side.RECEIVER, Event.RECEIVED),
        ).fetchall()
        alarms = connection.execute(
            "SELECT event, lk0, detail FROM semq_ledger WHERE event = ANY(%s) AND NOT detail LIKE ANY(%s)",
            ([int(event) for event in never], EXPECTED),
        ).fetchall()
    found.violations += [f"{lk0} was recorded {count} times at {node}" for lk0, count in twice]
    found.violations += [f"{node} noted {Event(event).name} of {lk0}: {detail}" for event, lk0, detail in alarms]


def _judge_log(node: str, log: Path, found: Findings) -> None:
    """No fault outside is an excuse for a traceback inside."""
    for line in log.read_text("utf-8", "replace").splitlines():
        if line.startswith("{") and line.endswith("}") and '"exception"' in line:  # a kill may leave half a line
            entry = json.loads(line)
            last = str(entry.get("exception", "")).strip().splitlines()[-1:]
            found.violations.append(f"{node} at {entry.get('timestamp')}: {entry.get('event')} {last}")
        elif line.startswith("Traceback"):
            found.violations.append(f"{node} ended with a traceback: see {log}")


def _url(world: World, node: str) -> str:
    url = world.nodes[node].postgres.running_url()
    if url is None:
        raise psycopg.OperationalError(f"no server runs for {node}")
    return url


def _one(connection: psycopg.Connection[Any], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
