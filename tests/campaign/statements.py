"""The statements about documents that are not the notebook's: the ledgers of all stores, figures, and verdicts."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pyarrow.parquet as pq

from semq.demo.reconciliation import run_command
from semq.installation.configuration import HUB
from semq.store.rows import Event, Side
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.status import AckStatus, AppStatus, SaveFwd
from tests.campaign.notebook import DELIVERED
from tests.campaign.world import BY_NAME, OLD, CampaignWorld
from tests.crash import node_requests
from tests.crash.installation import HUB_2

ENDS = {
    Event.DELIVERED: "DELIVERED", Event.REJECTED: "REJECTED", Event.CANCELLED: "CANCELLED", Event.LOST: "LOST",
    Event.UNKNOWN: "UNKNOWN", Event.DROPPED: "DROPPED",
}  # fmt: skip
ALARMS = (Event.MISMATCH, Event.VIOLATION)
# Table | condition of rows that still wait for something; not the pieces whose sender has lost their document with its
# store (%(lost)s: LK0s): their receiver keeps them for ``local_node.pieces.remains.KEPT_DAYS``
WAITING = {
    "tb_0031": "outcome IS NULL",
    "tb_0030": f"NOT (target_user = '{PIECES_USER}' AND lk0 = ANY(%(lost)s)) AND (app_status = {AppStatus.NEW:d}"
    f" OR (save_fwd = {SaveFwd.MUST:d} AND s_ack_status = {AckStatus.AS_INIT:d})"
    f" OR (p_ack_status = {AckStatus.AS_INIT:d} AND lk1 IS NOT NULL))",
    "tb_0031_submit": "reason_code IS NULL",
    "tb_0031_piece": "true",
}
DATE = ("--business-date", "today")
CLOCKS_S = 60.0  # the clock of a node may have been wrong at the time of a backup
ASKING_S_MAX = 150.0  # longest time until all partners have answered, who are asked each minute
SETTLED_S = 2.5  # the extracts must end later than the last step of each message, by more than `in_flight_s`


class AlarmLine(NamedTuple):
    node: str
    side: int
    event: int
    lk0: str
    target: str
    detail: str

    @property
    def code(self) -> str:
        return self.detail.partition(" ")[0]

    def is_about(self, address: str) -> bool:
        """Return whether the line is about a node, its messages, or its receipts for messages of others."""
        is_of_peer = self.side == Side.SENDER or not self.lk0  # else the target is this node
        return self.lk0.startswith(f"{address}.") or (is_of_peer and self.target.partition("/")[0] == address)

    def __str__(self) -> str:
        return f"{self.node} noted {Event(self.event).name} of {self.lk0 or self.target}: {self.detail}"


@dataclass(slots=True)
class MessageStory:
    """What the ledgers say about one message."""

    lk0: str
    target: str = ""
    number: int = -1
    is_piece: bool = False
    accepted: int = 0
    refused: list[str] = field(default_factory=list)  #: reasons, by the sender's node before it was accepted
    ends: list[str] = field(default_factory=list)  #: at the sender
    reason: str = ""  #: of the last end
    hub: list[str] = field(default_factory=list)  #: names of events
    received: dict[str, int] = field(default_factory=dict)  #: number of records, by node
    received_at: float = 0.0  #: of the first record, by the receiver's clock: seconds since 1970
    at_receiver: list[str] = field(default_factory=list)
    digests: set[str] = field(default_factory=set)

    def described(self) -> str:
        return (
            f"{self.lk0} to {self.target}: sender accepted {self.accepted}x, ends {self.ends} {self.reason[:80]},"
            f" refused {self.refused}; hub {self.hub}; receiver {self.at_receiver}"
        )


class VerdictRow(NamedTuple):
    verdict: str
    finding: str
    scope: str


@dataclass(slots=True)
class LedgerStatements:
    stories: dict[str, MessageStory] = field(default_factory=dict)  #: by LK0
    by_number: dict[int, list[MessageStory]] = field(default_factory=lambda: defaultdict(list))
    verdicts: dict[str, VerdictRow] = field(default_factory=dict)
    alarms: list[AlarmLine] = field(default_factory=list)
    missing: dict[str, set[str]] = field(default_factory=dict)  #: what restored nodes say that they lack, by node
    report: str = ""


def waiting(world: CampaignWorld) -> dict[str, int]:
    """Return the numbers of rows that wait, by ``store.table``. Raises psycopg.OperationalError."""
    rows = {}
    for store in world.store_names:
        with _connected(world, store) as connection:
            for table, condition in WAITING.items():
                query = f"SELECT count(*) FROM {table} WHERE {condition}"
                count = connection.execute(query.encode(), _lost(world)).fetchone()
                if count is not None and count[0]:
                    rows[f"{store}.{table}"] = int(count[0])
    return rows


def refused_in_pieces(world: CampaignWorld, store: str) -> list[str]:
    """Return the LK0s of refused documents whose pieces wait for an operator. Raises psycopg.OperationalError."""
    query = """SELECT lk0 FROM tb_0031_submit s
        WHERE reason_code IS NOT NULL AND EXISTS (SELECT FROM tb_0031_piece p WHERE p.document = s.number)"""
    with _connected(world, store) as connection:
        return [row[0] for row in connection.execute(query.encode())]


def dump(world: CampaignWorld) -> str:
    """Return the waiting rows as text."""
    lines = []
    for store in world.store_names:
        with _connected(world, store) as connection:
            for table, condition in WAITING.items():
                without = "" if table in ("tb_0031", "tb_0030") else "- 'payload' - 'headers' - 'envelope'"
                query = f"SELECT (to_jsonb(t) {without})::text FROM {table} t WHERE {condition} LIMIT 50"
                lines += [
                    f"{store}.{table}: {row[0][:1500]}" for row in connection.execute(query.encode(), _lost(world))
                ]
    return "\n".join(lines)


def _lost(world: CampaignWorld) -> dict[str, list[str]]:
    return {"lost": [lk0 for restored in world.notebook.restores for lk0 in restored.lk0s]}


def read_ledgers(world: CampaignWorld) -> LedgerStatements:
    """Read the ledgers of all stores."""
    statements = LedgerStatements()
    for store in world.store_names:
        with _connected(world, store) as connection, connection.cursor("ledger") as cursor:
            cursor.execute(
                "SELECT side, event, lk0, target, app_key, digest, detail, at FROM semq_ledger ORDER BY number"
            )
            for row in cursor:
                _add(statements, store, *row)
    for story in statements.stories.values():
        if story.number >= 0 and not story.is_piece:
            statements.by_number[story.number].append(story)
    return statements


def _add(
    statements: LedgerStatements,
    store: str,
    side: int,
    event: int,
    lk0: str,
    target: str,
    key: str,
    digest: bytes,
    detail: str,
    at: datetime,
) -> None:
    if event in ALARMS:
        statements.alarms.append(AlarmLine(store, side, event, lk0, target, detail))
        return
    if not lk0:
        return
    story = statements.stories.setdefault(lk0, MessageStory(lk0))
    if target:
        story.target = story.target or target
        story.is_piece = story.is_piece or target.endswith(f"/{PIECES_USER}")
    if key.isdigit():
        story.number = int(key)
    if digest:
        story.digests.add(bytes(digest).hex())
    if side == Side.HUB:
        story.hub.append(Event(event).name)
    elif side == Side.SENDER:
        _add_senders(story, event, detail)
    else:
        story.at_receiver.append(Event(event).name)
        if event == Event.RECEIVED:
            story.received[store] = story.received.get(store, 0) + 1
            story.received_at = story.received_at or at.timestamp()


def _add_senders(story: MessageStory, event: int, detail: str) -> None:
    if event == Event.ACCEPTED:
        story.accepted += 1
    elif event == Event.REFUSED and not story.accepted:
        story.refused.append(detail)
    elif event in ENDS:
        story.ends.append(ENDS[Event(event)])
        story.reason = detail


async def add_verdicts(world: CampaignWorld, statements: LedgerStatements) -> None:
    """Extract the ledgers of all nodes, reconcile them, and add the verdicts."""
    await asyncio.sleep(SETTLED_S)
    for retired in world.retired_configurations:
        await run_command("extract", "--config", retired, *DATE)
    for name in (HUB, HUB_2, *BY_NAME):
        place = world.nodes[name].place
        which = ("--institution", place.institution) if place.institution is not None else ()
        variables = world.old.program.variables if world.old is not None and name == OLD else {}
        await run_command("extract", "--config", place.config, *which, *DATE, variables=variables)
    result = await run_command("run", "--config", world.nodes[HUB].place.config, *DATE, "--memory", "1g")
    statements.report = result["report"]
    folder = Path(result["report"]).parent / "verdicts.parquet"
    table = await asyncio.to_thread(pq.read_table, folder, columns=["lk0", "verdict", "finding", "scope"])
    for row in table.to_pylist():
        statements.verdicts[row["lk0"]] = VerdictRow(row["verdict"], row["finding"] or "", row["scope"])


async def add_missing(world: CampaignWorld, statements: LedgerStatements) -> None:
    """Add the documents that restored nodes lack, as they have learned from their partners."""
    for name in {restored.name for restored in world.notebook.restores}:
        since = min(restored.began for restored in world.notebook.restores if restored.name == name) - CLOCKS_S
        answer: dict[str, Any] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(ASKING_S_MAX):
                while not answer or answer["unanswered"]:
                    answer = await node_requests.ask(world.nodes[name], "node.missing", since=int(since * 1000))
                    await asyncio.sleep(1)
        if answer.get("unanswered", True) and world.old is None:
            world.complaints.append(f"{name} does not know what it lacks: {answer.get('unanswered')}")
        else:
            statements.missing[name] = {row["lk0"] for row in answer["rows"]}


Figures = Counter[tuple[str, str]]  # by partner (empty: all) and kind


async def wrong_figures(world: CampaignWorld, statements: LedgerStatements) -> list[str]:
    """Return the figures that differ from the ledgers, one text each."""
    found: list[str] = []
    addresses = [row.address for row in BY_NAME.values()]
    for name, row in BY_NAME.items():
        expected = figures_of(statements, name, row.address)
        for partner in ("", *addresses):  # its own address, too
            which = {"partner": partner} if partner else {}
            answer = await node_requests.ask(world.nodes[name], "figures.traffic", period="day", **which)
            for kind in ("delivered", "received"):
                shown = answer["documents"].get(kind, 0)
                if shown != expected[partner, kind]:
                    whose = f" with {partner}" if partner else ""
                    found.append(
                        f"{name} shows {shown} documents {kind}{whose}, its ledger has {expected[partner, kind]}"
                    )
    return found


def figures_of(statements: LedgerStatements, name: str, address: str) -> Figures:
    """Return the figures of an institution as its ledger has them."""
    figures: Figures = Counter()
    for partner, kind, number in _lines(statements, name, address):
        figures["", kind] += number
        figures[partner, kind] += number
    return figures


def _lines(statements: LedgerStatements, name: str, address: str) -> Iterator[tuple[str, str, int]]:
    """Yield partner, kind, and number of lines of each document."""
    for story in statements.stories.values():
        if story.is_piece:
            continue
        source = str(parse_lk0(story.lk0).node)
        yield source, "received", story.received.get(name, 0)
        if source == address:
            yield story.target.partition("/")[0], "delivered", story.ends.count(DELIVERED)


class StoreSize(NamedTuple):
    store: str
    rows: int  #: in its queues and its dedup ledger
    size: int  #: bytes of the database
    wal: int  #: bytes written so far


def sizes(world: CampaignWorld) -> Iterator[StoreSize]:
    """Yield the size of each store. Raises psycopg.OperationalError."""
    for store in world.store_names:
        with _connected(world, store) as connection:
            row = connection.execute(
                "SELECT (SELECT count(*) FROM tb_0031) + (SELECT count(*) FROM tb_0030)"
                " + (SELECT count(*) FROM tb_0030_ledger), pg_database_size(current_database()),"
                " (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
            ).fetchone()
            assert row is not None
            yield StoreSize(store, *map(int, row))


def _connected(world: CampaignWorld, store: str) -> psycopg.Connection[Any]:
    url = world.database(store)
    if url is None:
        raise psycopg.OperationalError(f"no server runs for {store}")
    return psycopg.connect(url)


def tracebacks(world: CampaignWorld) -> Iterator[str]:
    """Yield the unexpected errors in the logs of all nodes."""
    for name, node in world.nodes.items():
        for line in node.place.log.read_text("utf-8", "replace").splitlines():
            # a killed process may leave an incomplete line
            if line.startswith("{") and line.endswith("}") and '"exception"' in line:
                entry = json.loads(line)
                last = str(entry.get("exception", "")).strip().splitlines()[-1:]
                yield f"{name} at {entry.get('timestamp')}: {entry.get('event')} {last}"
            elif line.startswith("Traceback"):
                yield f"{name} ended with a traceback: see {node.place.log}"
