"""The census counts every row once, in the group of its columns and marks."""

import time
from itertools import product

import psycopg
from sqlalchemy import Boolean, Integer, String, column, create_engine, or_, select, text, values

from bench.http.large_tables import FIRST_ID, PARTNERS, fill
from semq.engine.people.stuck import awaits_confirmation
from semq.store.rows import Pending
from semq.store.views.census import groups
from semq.store.views.messages import owed
from semq.umx_t.address import parse_address
from semq.umx_t.locator import parse_lk0, parse_lk1
from semq.umx_t.status import AckStatus, Arrival, SaveFwd

CHANGE_ROWS = """
UPDATE tb_0031 SET held = true WHERE object_id = {first} + 5;
UPDATE tb_0031 SET outcome = 120, reason_code = 'SEMQ-1', reason_text = 'x'
    WHERE object_id IN ({first} + 6, {first} + 9)
"""


def test_every_row_is_counted_once_and_marked_ones_in_groups_of_their_own(database: str) -> None:
    fill(database, 200, 8)
    with psycopg.connect(database) as connection:
        connection.execute(CHANGE_ROWS.format(first=FIRST_ID))
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        now_ms = int(time.time() * 1000)
        silent = [FIRST_ID + 20, FIRST_ID + 21, FIRST_ID + 40]
        counted = groups(connection, now_ms - 30_000, {"away": [], "silent": silent}, {"blocked": [1]})
        # Parallel processes sort all rows, which takes the processors from pages and node.
        assert connection.execute(text("SHOW max_parallel_workers_per_gather")).scalar() == "0"
    engine.dispose()
    assert sum(group["rows"] for group in counted) == 200
    assert sum(group["rows"] for group in counted if group["mark"] == "silent") == 3
    assert sum(group["rows"] for group in counted if group["held"]) == 1
    assert sum(group["rows"] for group in counted if group["outcome"] == "REJECTED") == 2
    late = sum(group["rows"] for group in counted if group["late"])
    # A row was accepted every 0.3 s, so about 100 of the 200 are older than 30 s. Refused rows are not late.
    assert 90 <= late <= 101
    assert len({group["target"] for group in counted}) == PARTNERS
    assert all(group["oldest_at"] <= now_ms and group["bytes"] > 0 for group in counted)


def test_rows_in_sql_in_memory_and_as_facts_owe_the_same_acknowledgements(database: str) -> None:
    grid = list(product((None, "1.1.5"), SaveFwd, AckStatus, AckStatus))
    columns = (column("lk1", String), column("save_fwd", Integer), column("p_ack_status", Integer))
    rows = values(*columns, column("s_ack_status", Integer), name="rows").data(grid)
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        query = select(rows, or_(*owed(rows.c)).cast(Boolean).label("owes"))
        found = {tuple(row[:4]): row.owes for row in connection.execute(query)}
    engine.dispose()
    assert len(found) == len(grid)
    for lk1, save_fwd, by_hub, by_sender in grid:
        facts = {"lk1": lk1, "save_fwd": save_fwd, "p_ack_status": by_hub.name, "s_ack_status": by_sender.name}
        row = Pending(
            1, parse_lk0("1.10008.1.1.3f.1"), 0, parse_address("1.56001"), save_fwd, False, Arrival.RECV,
            lk1=parse_lk1(lk1) if lk1 else None, p_ack_status=by_hub, s_ack_status=by_sender,
        )  # fmt: skip
        assert row.owes == awaits_confirmation(facts) == found[lk1, save_fwd, by_hub, by_sender], facts
