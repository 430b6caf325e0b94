"""Documents exchanged with a partner: pages of any size lose and repeat none, and read a bounded part of the ledger."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import Connection, create_engine

from semq.store.postgres.ledger_partitions import partition_of
from semq.store.rows import Event, Side
from semq.store.views import exchanged
from semq.store.views.exchanged import newest_before, not_recorded, page
from semq.umx_t.pieces import PIECES_USER

PARTNER, SIMILAR, OWN = "1.10_08", "1.10x08", "1.56001"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = [TODAY - timedelta(1), TODAY, TODAY + timedelta(400)]  # the last one has no partition
LINE = (
    "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type, app_subtype,"
    " app_key, digest, size, detail) VALUES (%s, %s, %s, %s, %s, %s, 1, '', 'trade', 'order', '', %s, '', 5, '')"
)


def fill(url: str, per_day: int) -> set[str]:
    """Write lines about documents of several partners; return the locators of those that a page should name."""
    wanted, number = set(), 0
    with psycopg.connect(url) as connection:
        for day in DAYS:
            for n in range(per_day):
                sent, received = f"{OWN}.1.1.{day:%y%m%d}.{n}", f"{PARTNER}.1.1.{day:%y%m%d}.{n}"
                foreign = f"{SIMILAR}.1.1.{day:%y%m%d}.{n}"
                for side, event, lk0, target in (
                    (Side.SENDER, Event.ACCEPTED, sent, f"{PARTNER}/erp"),
                    (Side.SENDER, Event.DELIVERED, sent, f"{PARTNER}/erp"),
                    (Side.SENDER, Event.DELIVERED, f"{sent}1", SIMILAR),
                    (Side.SENDER, Event.REJECTED, f"{sent}2", PARTNER),
                    (Side.RECEIVER, Event.RECEIVED, received, OWN),
                    (Side.RECEIVER, Event.RECEIVED, f"{received}3", f"{OWN}/{PIECES_USER}"),
                    (Side.RECEIVER, Event.RECEIVED, foreign, OWN),
                    (Side.HUB, Event.FORWARDED, f"{received}4", PARTNER),
                ):
                    number += 1
                    key = f"K{n}" if event in exchanged.FIRST else ""
                    connection.execute(LINE, (number, day + timedelta(minutes=n), side, event, lk0, target, key))
                if day > DAYS[0]:
                    wanted |= {sent, received}
    return wanted


def read_all(connection: Connection, since: datetime) -> list[str]:
    found, place = list[str](), ""
    while True:
        read = page(connection, PARTNER, int(since.timestamp() * 1000), place)
        rows, place = read["rows"], read["next"]
        assert len(rows) <= exchanged.ROWS_MAX
        assert {(row["app_key"][:14], row["size"]) for row in rows} <= {("trade/order//K", 5)}
        found += [row["lk0"] for row in rows]
        if not place:
            return found


@pytest.mark.parametrize(("blocks", "rows"), [(1024, 200), (1, 3), (1, 200), (2, 1)])
def test_pages_of_any_size_lose_and_repeat_none(
    database: str, blocks: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanged, "BLOCKS_MAX", blocks)
    monkeypatch.setattr(exchanged, "ROWS_MAX", rows)
    wanted = fill(database, 40)
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        found = read_all(connection, DAYS[1])
        assert (len(found), set(found)) == (len(wanted), wanted)
        assert read_all(connection, DAYS[2] + timedelta(1)) == []
        assert page(connection, PARTNER, 0, "semq_ledger_20010101:7,7")["rows"]  # its partition was dropped meanwhile
        assert not_recorded(connection, [*wanted, "1.88001.1.1.a.1"]) == {"1.88001.1.1.a.1"}
        assert newest_before(connection, 8 * 40 + 3) == int(DAYS[1].timestamp() * 1000)
        assert newest_before(connection, 0) is None
    engine.dispose()


def test_a_page_reads_a_range_of_blocks_only(database: str) -> None:
    fill(database, 40)
    partition = partition_of(TODAY.date())
    statements = [exchanged.LINES, exchanged.NEWEST]
    values = {"after": "(0,0)", "end": "(1,0)", "since": 0, "partner": PARTNER, "most": 5, "number": 9}
    with psycopg.connect(database) as connection:
        for statement in statements:
            text = statement.format(partition=partition, lines=exchanged.BETWEEN_NODES)
            for name in values:
                text = text.replace(f":{name}", f"%({name})s")
            text = text.replace("'%/", "'%%/")
            plan = connection.execute(f"EXPLAIN {text}".encode(), values).fetchall()
            assert "Tid Range Scan" in str(plan)
