"""Housekeeping of a node."""

from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from local_node.node import LocalNode
from semq.config import load
from semq.config.settings import Settings
from semq.service.housekeeping import EVERY_S, FIRST_S, RETRY_S, Housekeeping
from tests.clocks import ShiftedClock
from tests.service.inprocess import LOCAL_CONFIG, InProcess

INSERT_OLD_TOKENS = """
    INSERT INTO tb_0031_token (token, lk0, digest, at)
    SELECT 'old ' || n, 'x', '', now() - interval '8 days' FROM generate_series(1, 3) n"""


def settings_of(folder: Path, more: str = "") -> Settings:
    file = folder / "node.toml"
    file.write_text(f"{LOCAL_CONFIG.format(name='10008', hub=1)}[database]\nledger_days = 0\n{more}")
    return load(file, {})


def count_tokens(url: str, *statements: str) -> int:
    """Execute statements, and return the number of tokens in the database."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        row = connection.execute("SELECT count(*) FROM tb_0031_token").fetchone()
        assert row is not None
        return int(row[0])


async def test_the_housekeeping_runs_at_its_intervals(database: str, tmp_path: Path) -> None:
    clock = ShiftedClock()
    housekeeping = Housekeeping(lambda: database, clock, settings_of(tmp_path))
    assert count_tokens(database, INSERT_OLD_TOKENS) == 3
    await housekeeping.run_if_due()
    assert count_tokens(database) == 3
    clock.ahead = timedelta(seconds=FIRST_S)
    await housekeeping.run_if_due()
    assert count_tokens(database) == 0
    assert count_tokens(database, INSERT_OLD_TOKENS) == 3
    await housekeeping.run_if_due()
    assert count_tokens(database) == 3
    clock.ahead += timedelta(seconds=EVERY_S)
    await housekeeping.run_if_due()
    assert count_tokens(database) == 0


async def test_only_the_housekeeping_deletes_old_lines_of_the_audit_log(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO web_audit (at, who, via, act, outcome)"
            " SELECT now() - n * interval '1 day', 'anna', 'amqp', 'msg.hold', 'done' FROM generate_series(1, 5) n"
        )
        clock = ShiftedClock()
        housekeeping = Housekeeping(lambda: database, clock, settings_of(tmp_path, "[http]\naudit_days = 3"))
        clock.ahead = timedelta(seconds=FIRST_S)
        await housekeeping.run_if_due()
        assert connection.execute("SELECT count(*) FROM web_audit").fetchone() == (2,)
        with pytest.raises(psycopg.errors.RaiseException, match="only added"):
            connection.execute("DELETE FROM web_audit")


async def test_a_failed_run_is_repeated_after_five_minutes(database: str, tmp_path: Path) -> None:
    clock, urls = ShiftedClock(), [f"{database}_that_is_not_there", database]
    housekeeping = Housekeeping(lambda: urls.pop(0), clock, settings_of(tmp_path))
    count_tokens(database, INSERT_OLD_TOKENS)
    clock.ahead = timedelta(seconds=FIRST_S)
    await housekeeping.run_if_due()
    assert count_tokens(database) == 3
    clock.ahead += timedelta(seconds=RETRY_S)
    await housekeeping.run_if_due()
    assert count_tokens(database) == 0


async def test_a_node_runs_its_housekeeping_as_a_job(inprocess: InProcess) -> None:
    clock = ShiftedClock()
    settings = inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1))
    node = LocalNode(settings, clock)
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    [job] = [job for job in node.clockwork.jobs if job.name == "housekeeping"]
    url = str(settings.database.dsn)
    assert count_tokens(url, INSERT_OLD_TOKENS) == 3
    clock.ahead = timedelta(seconds=FIRST_S)
    await job.run()  # type: ignore[misc]
    assert count_tokens(url) == 0
