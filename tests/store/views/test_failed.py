"""Failed documents of both queues, selected by the code of their reason."""

import psycopg
from sqlalchemy import create_engine

from bench.http.large_tables import FIRST_ID, fill
from semq.store.views.failed import FAILED, with_errors
from semq.store.views.messages import RETURNED
from semq.store.views.pages import search_page
from semq.store.views.selection import Search
from tests.store.ledger_plans import scans_of

REFUSED, UNREADABLE = "SEMQ-1206", "SEMQ-5204"
FAILURES = f"""
UPDATE tb_0031 SET outcome = 120, reason_code = '{REFUSED}', reason_text = 'x' WHERE object_id = {FIRST_ID} + 1;
UPDATE tb_0031 SET outcome = 120, reason_code = 'SEMQ-1217', reason_text = 'x' WHERE object_id = {FIRST_ID} + 2;
UPDATE tb_0031 SET outcome = 150, reason_code = '{RETURNED}', reason_text = 'x' WHERE object_id = {FIRST_ID} + 3;
INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, target, source, save_fwd, ack2, status, app_status,
    reason_code, reason_text, received_at)
SELECT n, '1.10008.1.1.ab.' || n, '1.10008.1.1', 171, n, '1.56001', '1.10008', 3, true, 410, 330,
    CASE n WHEN 1 THEN '{UNREADABLE}' END, CASE n WHEN 1 THEN 'x' END, now()
FROM generate_series(1, 2) n
"""


def test_a_code_selects_the_failed_documents_of_both_queues_with_this_reason(database: str) -> None:
    fill(database, 10, 10)
    with psycopg.connect(database) as connection:
        connection.execute(FAILURES)
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as reader:
        found = {
            code: {row["id"] for row in search_page(reader, Search(code=code), FAILED)["rows"]}
            for code in (None, REFUSED, RETURNED, UNREADABLE, "SEMQ-9")
        }
        listed = {row["id"] for row in search_page(reader, Search(code=UNREADABLE))["rows"]}
    engine.dispose()
    assert found == {
        None: {FIRST_ID + 1, FIRST_ID + 2, FIRST_ID + 3, 1, 2},
        REFUSED: {FIRST_ID + 1},
        RETURNED: {FIRST_ID + 3},
        UNREADABLE: {1},
        "SEMQ-9": set(),
    }
    assert listed == {1}


def test_errors_of_new_documents_are_searched_in_the_partitions_since_then(database: str) -> None:
    fill(database, 10, 300, days=30)
    with psycopg.connect(database) as connection:
        connection.execute(FAILURES)
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as reader:
        rows = search_page(reader, Search(), FAILED)["rows"]
        (scans,) = scans_of(reader, lambda: with_errors(reader, rows))
        assert scans < 15
        assert scans_of(reader, lambda: with_errors(reader, [])) == []
    engine.dispose()
