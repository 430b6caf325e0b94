"""The census counts every row once, in the group of its columns and marks."""

import time

import psycopg
from sqlalchemy import create_engine

from bench.http.large_tables import FIRST_ID, PARTNERS, fill
from semq.store.views.census import groups

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
