"""Rows in the queues of a node, the growth of the queues, and readings of Postgres' statistics."""

import psycopg
import pytest

from bench.errors import NoProgress
from bench.floor import rows
from tests.waiting import until

# A row of the table that is used as a queue here, because it has few mandatory columns.
INSERT = "INSERT INTO tb_0031_submit (target, payload) VALUES ('56001', '')"


async def test_an_empty_queue_is_clean(database: str) -> None:
    await rows.wait_clean({"a": database}, "1.99001")
    assert await rows.queued({"a": database}, "1.99001") == 0


async def test_rows_that_are_never_cleaned_up_are_an_error(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PATIENCE_S", 0.1)
    monkeypatch.setattr(rows, "QUEUED", "SELECT count(*) FROM tb_0031_submit WHERE target <> %s")
    monkeypatch.setattr(rows, "HAS_QUEUED", "SELECT EXISTS (SELECT FROM tb_0031_submit WHERE target <> %s)")
    with psycopg.connect(database) as connection:
        connection.execute(INSERT)
    with pytest.raises(NoProgress, match="1 rows of a"):
        await rows.wait_clean({"a": database}, "99001")
    await rows.wait_clean({"a": database}, "56001")


async def test_a_peak_stays_when_the_rows_have_gone(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "QUEUES", ("tb_0031_submit",))
    monkeypatch.setattr(rows, "SAMPLE_S", 0.01)
    async with rows.peaks(lambda: {"a": database}) as highest:
        await until(lambda: "a" in highest)
        async with await psycopg.AsyncConnection.connect(database) as connection:
            await connection.execute(INSERT)
        await until(lambda: highest["a"] == 1)
        async with await psycopg.AsyncConnection.connect(database) as connection:
            await connection.execute("DELETE FROM tb_0031_submit")
    assert highest == {"a": 1}


async def test_a_reading_includes_the_write_ahead_log(database: str) -> None:
    before = (await rows.read({"a": database}))["a"]
    with psycopg.connect(database) as connection:
        connection.execute(INSERT)
    difference = (await rows.read({"a": database}))["a"].since(before)
    assert difference.wal_bytes > 0
    assert difference.fsyncs > 0
