"""Sample rows of an older SEMQ: the three tables of the design."""

import csv
import sqlite3
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table, create_engine, insert
from sqlalchemy.dialects.mysql import LONGBLOB

META = MetaData()
BODY = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")  # a BLOB has at most 64 KiB
ATTRIBUTES = [Column(name, Integer) for name in ("reliable", "save_fwd", "ack2", "fixed", "encrypt")]


def app_key_columns() -> list[Column[Any]]:
    return [Column(f"app_{name}", String(300)) for name in ("domain", "type", "subtype", "key")]


OUTBOUND = Table(
    "tb_0031", META,
    Column("object_id", BigInteger), Column("ss_status", Integer), Column("source", String(80)),
    Column("target", String(80)), Column("target_user", String(80)), Column("app_data", BODY),
    *ATTRIBUTES, Column("session_key", String(400)), *app_key_columns(),
    Column("semq_id", Integer), Column("semq_db_id", Integer), Column("lk0_node_id", String(80)),
    Column("lk0_object_id", BigInteger),
)  # fmt: skip
PENDING = Table(
    "tb_0030", META,
    Column("object_id", BigInteger), Column("p_ack_status", Integer), Column("s_ack_status", Integer),
    Column("lk0_node_id", String(80)), Column("lk0_semq_id", Integer), Column("lk0_semq_db_id", Integer),
    Column("lk0_object_id", BigInteger),
)  # fmt: skip
TO_DO = Table(
    "tb_0032", META,
    Column("object_id", BigInteger), Column("status", Integer), Column("from_user", String(80)),
    Column("to_user", String(80)), Column("app_data", BODY), *app_key_columns(),
)  # fmt: skip
INIT, SENT, ACK_FWD, ACK, ACK2 = range(5)
Rows = Sequence[Mapping[str, Any]]


def outbound(object_id: int, status: int = INIT, **changes: Any) -> dict[str, Any]:
    """Return a row of tb_0031: an order from 10008 to 56001."""
    return {
        "object_id": object_id, "ss_status": status, "source": "10008", "target": "56001",
        "app_data": f"order {object_id}".encode(), "reliable": 1, "save_fwd": 3, "ack2": 1, "fixed": 1, "encrypt": 0,
        "app_domain": "trade", "app_type": "order", "app_subtype": "", "app_key": f"S{object_id:04d}",
    } | changes  # fmt: skip


def pending(object_id: int, record: int, p_ack: int = 0, s_ack: int = 0) -> dict[str, Any]:
    """Return a row of tb_0030: message ``record`` of 10008 has arrived."""
    return {
        "object_id": object_id, "p_ack_status": p_ack, "s_ack_status": s_ack, "lk0_node_id": "10008",
        "lk0_semq_id": 1, "lk0_semq_db_id": 1, "lk0_object_id": record,
    }  # fmt: skip


def to_do(object_id: int, status: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a row of tb_0032: a message from one user to another."""
    return {
        "object_id": object_id, "status": status, "from_user": "alice", "to_user": "bob",
        "app_data": f"note {object_id}".encode(), "app_key": f"T{object_id}",
    } | changes  # fmt: skip


def fill(url: str, outbound: Rows = (), pending: Rows = (), to_do: Rows = ()) -> None:
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://").replace("mysql://", "mysql+pymysql://")
    )
    META.create_all(engine)
    with engine.begin() as connection:
        for table, rows in ((OUTBOUND, outbound), (PENDING, pending), (TO_DO, to_do)):
            names = table.columns.keys()
            if rows:
                connection.execute(insert(table), [{name: row.get(name) for name in names} for row in rows])
    engine.dispose()


def write_csv(folder: Path, outbound: Rows = (), pending: Rows = (), to_do: Rows = ()) -> None:
    """Write the rows as CSV files with payloads in base64."""
    for table, rows in ((OUTBOUND, outbound), (PENDING, pending), (TO_DO, to_do)):
        with (folder / f"{table.name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, table.columns.keys())
            writer.writeheader()
            for row in rows:
                body = row.get("app_data")
                text = {"app_data": b64encode(body).decode()} if isinstance(body, bytes) else {}
                writer.writerow({**row, **text})


def write_journal_without_digests(file: Path, tokens: Iterable[str]) -> None:
    """Write a journal as earlier versions did, with these rows as sent."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE taken (token TEXT PRIMARY KEY, outcome TEXT NOT NULL, lk0 TEXT NOT NULL)")
        connection.executemany("INSERT INTO taken VALUES (?, 'sent', '1.10008.1.1.5.1')", [(each,) for each in tokens])
