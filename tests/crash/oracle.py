"""The oracle: compares the promises of nodes with the records of the receiving applications, and reads the databases.

It uses only names and error codes from the code of the nodes.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from semq.engine.uplink import DIRECTLY
from semq.installation.configuration import CARRIER, HUB
from semq.seal.errors import SignerGone
from semq.store.rows import Event, Side
from semq.umx_t.pieces import PIECES_USER
from tests.crash.book import Book, BookEntry
from tests.crash.documents import MUST, CrashDocument, DocumentStream, source_of
from tests.crash.excuses import AlarmLine
from tests.crash.world import ADDRESS, SIDES, CrashWorld, other_members

# Tables that are empty when all documents are settled.
CLEAN = (
    "tb_0031",
    "tb_0031_body",
    "tb_0031_submit",
    "tb_0031_piece",
    "tb_0030",
    "tb_0030_body",
    "tb_0030_ledger",
    "tb_0030_done",
)
# Events that must not occur unless ``excuses`` explains them.
NEVER = (Event.REFUSED, Event.MISMATCH, Event.VIOLATION, Event.PARKED, Event.VOIDED)
ENDS = (Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED)
SHOWN_MAX = 20  # largest number of findings of each kind in the report


@dataclass
class OracleFindings:
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    unclean: dict[str, int] = field(default_factory=dict)  #: remaining rows by ``node.table``

    @property
    def good(self) -> bool:
        return not (self.lost or self.duplicated or self.violations or self.unclean)

    def lines(self) -> list[str]:
        """Return the findings as text, at most SHOWN_MAX of each kind."""
        by_kind = [("lost", self.lost), ("duplicated", self.duplicated), ("violation", self.violations)]
        findings = [f"{name}: {text}" for name, items in by_kind for text in items[:SHOWN_MAX]]
        return findings + [f"unclean: {rows} rows in {table}" for table, rows in self.unclean.items()]


def has_all(world: CrashWorld) -> bool:
    """Whether the applications have received all accepted documents of class 3."""
    for side in SIDES:
        for member in other_members(side):
            tokens = [document.token for document in world.streams[side].must_arrive(member)]
            if world.books[member].count_received(tokens) != len(tokens):
                return False
    return True


def judge(world: CrashWorld) -> OracleFindings:
    """Check documents, ledgers and logs, and include the complaints. The applications and nodes must be idle."""
    findings = OracleFindings()
    for side in SIDES:
        codes = world.certificate_changes.codes_of_resealing(side)
        resealed = _judge_own_ledger(side, world.streams[side], _url(world, side), codes, findings)
        for member in other_members(side):
            _judge_book(world.streams[side], member, world.books[member], resealed, findings)
    for member, book in world.books.items():
        foreign = [
            token for token in book.entries_by_token() if source_of(token) not in SIDES or source_of(token) == member
        ]
        findings.violations += [f"{token} was received by {member}, and is no document for it" for token in foreign]
    given_up = {
        lk0 for side in SIDES if world.certificate_changes.revoked[side] for lk0 in _given_up(_url(world, side))
    }
    for node in world.store_names:
        lines = _judge_any_ledger(node, _url(world, node), findings)
        findings.violations += map(str, world.certificate_changes.unexplained(lines, given_up))
    for process in world.nodes.values():
        if process.name != CARRIER:
            judge_log(process.name, process.place.log, findings)
    findings.violations += world.complaints
    return findings


def leftovers(world: CrashWorld) -> dict[str, int]:
    """Return the number of rows in tables that should be empty, by ``node.table``. Raises psycopg.OperationalError."""
    return {name: rows for node in world.store_names for name, rows in leftovers_of(world, node).items()}


def leftovers_of(world: CrashWorld, node: str) -> dict[str, int]:
    """Return ``leftovers`` of one store. Raises psycopg.OperationalError."""
    findings = {}
    with psycopg.connect(_url(world, node)) as connection:
        stays = world.certificate_changes.conditions_of_staying_rows(node)
        for table in CLEAN:
            rows = _count(connection, f"SELECT count(*) FROM {table} WHERE ({stays.get(table, 'false')}) IS NOT TRUE")
            if rows:
                findings[f"{node}.{table}"] = rows
    return findings


def steps(world: CrashWorld) -> int:
    total = 0
    for node in world.store_names:
        with psycopg.connect(_url(world, node)) as connection:
            total += _count(connection, "SELECT count(*) FROM semq_ledger")
    return total


def messages_by_way(world: CrashWorld) -> dict[str, int]:
    """Return the numbers of messages that the institutions have received over the direct link and through the hub."""
    received: dict[bool, set[str]] = {True: set(), False: set()}
    for side in SIDES:
        with psycopg.connect(_url(world, side)) as connection:
            for lk0, is_direct in connection.execute(
                "SELECT lk0, detail = %s FROM semq_ledger WHERE side = %s AND event = %s",
                (DIRECTLY, Side.RECEIVER, Event.RECEIVED),
            ):
                received[is_direct].add(lk0)
    at_hub: set[str] = set()
    for node in (HUB, *world.second_urls):
        with psycopg.connect(_url(world, node)) as connection:
            at_hub |= {lk0 for (lk0,) in connection.execute(
                "SELECT lk0 FROM semq_ledger WHERE side = %s AND event IN (%s, %s)",
                (Side.HUB, Event.FORWARDED, Event.STORED),
            )}  # fmt: skip
    return {"direct": len(received[True]), "hub": len(received[False] & at_hub)}


def unused_ways(counts: dict[str, int]) -> list[str]:
    """Return a sentence for each way that no message took."""
    names = {"direct": "the direct link", "hub": "the hub"}
    return [f"no message was received by way of {names[way]}" for way, messages in counts.items() if not messages]


def dump(world: CrashWorld) -> str:
    text = []
    for node in world.store_names:
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


# ------------------------------------------------------------ the records of the applications


def _judge_book(stream: DocumentStream, target: str, book: Book, resealed: set[int], findings: OracleFindings) -> None:
    """Check the documents of one source in one record. ``resealed``: numbers of documents that were sealed again."""
    received = {
        token: entries for token, entries in book.entries_by_token().items() if source_of(token) == stream.source
    }
    accepted = {document.token: document for document in stream.accepted if target in document.targets}
    for document in stream.must_arrive(target):
        entries = received.get(document.token, [])
        if not entries:
            findings.lost.append(f"{_description(document)} for {target}")
        elif len(entries) > 1:
            findings.duplicated.append(f"{_description(document)} received as {[entry.lk0 for entry in entries]}")
    for token, entries in received.items():
        origin = accepted.get(token)
        if origin is None:
            findings.violations.append(f"{token} was received by {target} and never accepted for it")
        elif any(entry.digest != origin.digest for entry in entries):
            findings.violations.append(f"{_description(origin)} arrived with other bytes")
        elif origin.save_fwd != MUST and len(entries) > 1:
            findings.duplicated.append(f"{_description(origin)} received as {[entry.lk0 for entry in entries]}")
    for lk0, token in book.repeats(flagged=False):
        if source_of(token) == stream.source:
            findings.duplicated.append(f"{token} ({lk0}) repeated without a flag")
    for lk0, token in book.altered_repeats():
        if source_of(token) == stream.source:
            findings.violations.append(f"{token} ({lk0}) repeated with other bytes")
    # A document that was sealed again is a new message: later documents of its order key may arrive before it.
    ordered = [entry for entry in book.ordered_entries() if source_of(entry.token) == stream.source]
    _judge_order([entry for entry in ordered if _number(entry.token) not in resealed], findings)


def _judge_order(entries: list[BookEntry], findings: OracleFindings) -> None:
    last: dict[str, int] = {}
    for entry in entries:
        number = _number(entry.token)
        earlier = last.get(entry.order_key, 0)
        if number < earlier:
            findings.violations.append(f"{entry.token} of order key {entry.order_key} came after number {earlier}")
        last[entry.order_key] = max(number, earlier)


def _number(token: str) -> int:
    return int(token.rpartition("-")[2])


def _description(document: CrashDocument) -> str:
    order = f" order key {document.order_key}" if document.order_key else ""
    return f"{document.token} @SaveFwd={document.save_fwd} @Ack2={document.ack2}{order}"


# ------------------------------------------------------------ the nodes' own ledgers


def _judge_own_ledger(
    side: str, stream: DocumentStream, url: str, resealing: set[str], findings: OracleFindings
) -> set[int]:
    """Check that each document is accepted once for each target, and delivered once if it has class 3.

    A document may instead be refused with one of the codes ``resealing`` and sealed again by the node. Return the
    numbers of documents that were sealed again.
    """
    resealed: set[int] = set()
    with psycopg.connect(url) as connection:
        accepted = connection.execute(
            "SELECT lk0, app_key, target, detail FROM semq_ledger WHERE side = %s AND event = %s AND target NOT LIKE %s"
            " ORDER BY number",
            (Side.SENDER, Event.ACCEPTED, f"%/{PIECES_USER}"),
        ).fetchall()
        ended = connection.execute(
            "SELECT lk0, event, detail FROM semq_ledger WHERE side = %s AND event = ANY(%s) ORDER BY number",
            (Side.SENDER, [int(event) for event in ENDS]),
        ).fetchall()
    numbers: dict[tuple[int, str], list[str]] = {}
    sealed_again = {lk0 for lk0, *_, detail in accepted if "the document of " in detail}
    for lk0, app_key, target, _ in accepted:
        numbers.setdefault((int(app_key), target), []).append(lk0)
    ends: dict[str, list[tuple[Event, str]]] = {}
    for lk0, event, detail in ended:
        ends.setdefault(lk0, []).append((Event(event), detail.partition(" ")[0]))
    pairs = [(document, target) for document in stream.accepted for target in document.targets]
    for document, target in pairs:
        lk0s = numbers.pop((document.number, ADDRESS[target]), [])
        *earlier, last = lk0s or [""]
        if earlier and sealed_again.issuperset(lk0s[1:]):
            resealed.add(document.number)
        elif len(lk0s) != 1:
            findings.violations.append(f"{_description(document)} was accepted for {target} as {lk0s} at {side}")
            continue
        if document.save_fwd != MUST:
            continue
        result = [ends.get(lk0, []) for lk0 in lk0s]
        refused = all(len(end) == 1 and end[0][0] is Event.REJECTED and end[0][1] in resealing for end in result[:-1])
        if not refused or [event for event, _ in result[-1]] != [Event.DELIVERED]:
            findings.violations.append(f"{_description(document)} for {target} ({last}) ended as {result} at {side}")
    for (number, to), lk0s in numbers.items():
        findings.violations.append(f"number {number} was accepted for {to} as {lk0s} at {side}, but never confirmed")
    return resealed


def _given_up(url: str) -> set[str]:
    """Return the LK0s of a node's messages whose signer the receiver no longer trusted."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT lk0 FROM semq_ledger WHERE side = %s AND event = %s AND detail LIKE %s",
            (Side.SENDER, Event.REJECTED, f"{SignerGone.code} %"),
        ).fetchall()
    return {lk0 for (lk0,) in rows}


def _judge_any_ledger(node: str, url: str, findings: OracleFindings) -> list[AlarmLine]:
    """Check that no document is recorded twice; return the alarms."""
    with psycopg.connect(url) as connection:
        repeated = connection.execute(
            "SELECT lk0, count(*) FROM semq_ledger WHERE side = %s AND event = %s GROUP BY lk0 HAVING count(*) > 1",
            (Side.RECEIVER, Event.RECEIVED),
        ).fetchall()
        alarms = connection.execute(
            "SELECT side, event, lk0, target, detail FROM semq_ledger WHERE event = ANY(%s) ORDER BY number",
            ([int(event) for event in NEVER],),
        ).fetchall()
    findings.violations += [f"{lk0} was recorded {count} times at {node}" for lk0, count in repeated]
    return [AlarmLine(node, *alarm) for alarm in alarms]


def judge_log(node: str, log: Path, findings: OracleFindings) -> None:
    """Check that a log has no tracebacks."""
    for line in log.read_text("utf-8", "replace").splitlines():
        # a killed process may leave an incomplete line
        if line.startswith("{") and line.endswith("}") and '"exception"' in line:
            entry = json.loads(line)
            last = str(entry.get("exception", "")).strip().splitlines()[-1:]
            findings.violations.append(f"{node} at {entry.get('timestamp')}: {entry.get('event')} {last}")
        elif line.startswith("Traceback"):
            findings.violations.append(f"{node} ended with a traceback: see {log}")


def _url(world: CrashWorld, node: str) -> str:
    url = world.database(node)
    if url is None:
        raise psycopg.OperationalError(f"no server runs for {node}")
    return url


def _count(connection: psycopg.Connection[Any], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
