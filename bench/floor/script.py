"""The script of the floor for one node: make realistic rows, then write them in batches. ``floor`` explains the steps.

The scripts of all nodes are processes that start together and never wait for each other.
"""

import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, LargeBinary, SmallInteger, Text
from sqlalchemy.types import TypeEngine

from bench.floor.reference import TableWork
from bench.floor.rows import RowChanges
from bench.network import NODE_IDS, A, B
from semq.engine.stored_envelopes import encode_envelope
from semq.store import tables
from semq.store.postgres.pipeline import OPTIONS
from semq.store.postgres.statements import copy_in
from semq.store.rows import Event, Side
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import LK0
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, SaveFwd, SendStatus

FIRST_ID = 1 << 40  # ids as large as those of a node
INCARNATION = 0x5F3A_91C2_77D0_1B64
SOURCE, TARGET = Address(1, NODE_IDS[A]), Address(1, NODE_IDS[B])
STORE = f"{SOURCE}.1.1"

# Tables written by COPY | the condition of deletions.
KEYS = {
    "tb_0031": "object_id = ANY(%s)",
    "tb_0031_body": "object_id = ANY(%s)",
    "tb_0030": "bref = ANY(%s)",
    "tb_0030_body": "bref = ANY(%s)",
    "tb_0030_ledger": "stream = 1 AND sid = ANY(%s)",
    "semq_ledger": "number = ANY(%s)",
}
# Tables with updates | statement.
UPDATES = {
    "tb_0031": f"UPDATE tb_0031 SET ss_status = {SendStatus.SS_SENT:d}, att = att + 1 WHERE object_id = ANY(%s)",
    "tb_0030": "UPDATE tb_0030 SET deliveries = deliveries + 1 WHERE bref = ANY(%s)",
}
# Tables of counters, with one change in each batch | statement.
COUNTERS = {
    "tb_0031_stream": f"""
        INSERT INTO tb_0031_stream AS s (dest, inc, next_sid) VALUES ('{TARGET}', {INCARNATION}, %s)
        ON CONFLICT (dest, inc) DO UPDATE SET next_sid = excluded.next_sid WHERE s.next_sid <= excluded.next_sid""",
    "tb_0030_stream": f"""
        INSERT INTO tb_0030_stream AS s (number, store, inc, floor) VALUES (1, '{STORE}', {INCARNATION}, %s)
        ON CONFLICT (store, inc) DO UPDATE SET floor = greatest(s.floor, excluded.floor), moved_at = now()""",
}
# Step | kind of change (field of RowChanges) | tables.
STEPS = (("accept", "inserted", KEYS), ("settle", "updated", UPDATES), ("clean", "deleted", KEYS))


def steps(changes: Mapping[str, RowChanges]) -> list[str]:
    """Return the names of the steps in which a node changes rows."""
    return [
        step
        for step, kind, step_tables in STEPS
        if any(getattr(changes.get(table, NO_CHANGES), kind) for table in step_tables)
    ]


NO_CHANGES = RowChanges()
# Postgres' names of the types of columns.
_TYPES: dict[type[TypeEngine[Any]], str] = {
    BigInteger: "int8",
    Integer: "int4",
    SmallInteger: "int2",
    Boolean: "bool",
    Text: "text",
    LargeBinary: "bytea",
    DateTime: "timestamptz",
}


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """The work of one node's script."""

    url: str
    documents: int
    size: int  #: size of a body, in bytes
    batch: int  #: documents
    work: TableWork  #: the changes of each table
    is_hub: bool

    def share(self, table: str, kind: str, first: int, last: int) -> int:
        """Return the number of row changes for the documents from ``first`` to below ``last``."""
        total: int = getattr(self.work.tables.get(table, NO_CHANGES), kind)
        return total * last // self.work.documents - total * first // self.work.documents


@dataclass(slots=True)
class Batch:
    #: by table: COPY statement, types of the columns, rows
    copies: list[tuple[str, list[str], list[tuple[Any, ...]]]] = field(default_factory=list)
    #: by step: statement and its argument, a counter or keys
    accept: list[tuple[str, int | list[int]]] = field(default_factory=list)
    settle: list[tuple[str, int | list[int]]] = field(default_factory=list)
    clean: list[tuple[str, int | list[int]]] = field(default_factory=list)

    def write(self, connection: psycopg.Connection[Any]) -> None:
        cursor = connection.cursor()
        for statement, types, rows in self.copies:
            with cursor.copy(statement.encode()) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
        for step in (self.accept, self.settle, self.clean):
            for statement, argument in step:
                cursor.execute(statement.encode(), (argument,))
            connection.commit()  # costs nothing for an empty step


def run(plan: ScriptPlan, barrier: Barrier, results: Any) -> None:
    """Make the rows, wait for the other scripts, write the rows; put (begin, end, fault) into ``results``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all scripts, and each ends immediately
    started = time.perf_counter()
    fault = ""
    try:
        batches = list(_batches(plan))
        with psycopg.connect(plan.url, options=OPTIONS) as connection:
            connection.prepare_threshold = 1
            barrier.wait(120)
            started = time.perf_counter()
            for batch in batches:
                batch.write(connection)
    except Exception as error:  # noqa: BLE001  (the bench reports every fault)
        barrier.abort()
        fault = repr(error)
    results.put((started, time.perf_counter(), fault))


def _batches(plan: ScriptPlan) -> Iterator[Batch]:
    makers = {name: RowMaker(name, plan) for name in KEYS if plan.work.tables.get(name, NO_CHANGES).inserted}
    made = dict.fromkeys(makers, 0)  # number of rows so far, by table
    for first in range(0, plan.documents, plan.batch):
        last = min(first + plan.batch, plan.documents)
        keys = list(range(FIRST_ID + first, FIRST_ID + last))
        batch = Batch()
        for name, maker in makers.items():
            count = plan.share(name, "inserted", first, last)
            rows = [maker.row(FIRST_ID + made[name] + number) for number in range(count)]
            made[name] += count
            batch.copies.append((copy_in(name), maker.types, rows))
        batch.accept = [(statement, last) for name, statement in COUNTERS.items() if plan.work.tables.get(name)]
        for name, statement in UPDATES.items():
            # Each statement updates every row of the batch at most once.
            for remaining in range(plan.share(name, "updated", first, last), 0, -len(keys)):
                batch.settle.append((statement, keys[:remaining]))
        for name, condition in KEYS.items():
            if count := plan.share(name, "deleted", first, last):
                batch.clean.append((f"DELETE FROM {name} WHERE {condition}", keys[:count]))
        yield batch


class RowMaker:
    """A maker of realistic rows of one table."""

    def __init__(self, name: str, plan: ScriptPlan) -> None:
        columns = list(tables.metadata.tables[name].columns)
        values = _values(plan)
        self.types = [_type_of(column) for column in columns]
        self._row: list[Any] = [values.get(column.name, _default(column)) for column in columns]
        places = {column.name: place for place, column in enumerate(columns)}
        self._id_places = [
            places[key] for key in ("object_id", "bref", "number", "sid", "src_object_id") if key in places
        ]
        self._lk0 = places.get("lk0")
        self._app_key = places.get("app_key")

    def row(self, number: int) -> tuple[Any, ...]:
        """Return the row of one document, or the ledger line with this number."""
        row = self._row.copy()
        for place in self._id_places:
            row[place] = number
        if self._lk0 is not None:
            row[self._lk0] = f"{STORE}.{INCARNATION:x}.{number}"
        if self._app_key is not None:
            row[self._app_key] = str(number)
        return tuple(row)


def _values(plan: ScriptPlan) -> dict[str, Any]:
    """Return, by column, the values that differ from the defaults."""
    now = datetime.now(UTC)
    return {
        "direction": int(Direction.RELAYED if plan.is_hub else Direction.OWN), "inc": INCARNATION, "store": STORE,
        "dest": str(TARGET), "target": str(TARGET), "save_fwd": int(SaveFwd.MUST), "ack2": True,
        "ss_status": int(SendStatus.SS_INIT), "stream": 1, "status": int(Arrival.RECV),
        "p_ack_status": int(AckStatus.AS_INIT), "s_ack_status": int(AckStatus.AS_INIT),
        "app_status": int(AppStatus.NEW), "app_domain": "bench", "app_type": "document", "app_subtype": "plain",
        "has_payload": True, "side": int(Side.SENDER), "event": int(Event.SENT), "at": now, "accepted_at": now,
        "received_at": now, "digest": bytes(32), "size": plan.size, "payload": bytes(plan.size),
        "envelope": encode_envelope(_envelope()),
    }  # fmt: skip


def _envelope() -> Envelope:
    return Envelope(
        source=SOURCE,
        target=TARGET,
        lk0=LK0(1, NODE_IDS[A], 1, 1, INCARNATION, FIRST_ID),
        attributes=Attributes(app_key=AppKey("bench", "document", "plain", "12345"), content_type="text/xml"),
        sid=12345,
        floor=12000,
        att=1,
        digest=bytes(32),
        submitted_at=1_700_000_000_000,
    )


def _type_of(column: Column[Any]) -> str:
    return _TYPES[type(column.type)]


def _default(column: Column[Any]) -> Any:
    if column.nullable:
        return None
    if isinstance(column.type, Boolean):
        return False
    if isinstance(column.type, SmallInteger | Integer | BigInteger):
        return 0
    return "" if isinstance(column.type, Text) else b""
