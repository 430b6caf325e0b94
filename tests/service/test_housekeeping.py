"""Housekeeping of a node."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from local_node.node import LocalNode
from semq.config import load
from semq.config.settings import Settings
from semq.service.clock_check import AFTER_JUMP_S, AFTER_START_S, ClockCheck
from semq.service.housekeeping import EVERY_S, FIRST_S, RETRY_S, Housekeeping
from semq.store.postgres import housekeeping as store_housekeeping
from semq.store.postgres.housekeeping import tidy
from semq.store.postgres.ledger_partitions import partition_of
from tests.clocks import ShiftedClock
from tests.service.inprocess import LOCAL_CONFIG, InProcess

INSERT_OLD_TOKENS = """
    INSERT INTO tb_0031_token (token, lk0, digest, at)
    SELECT 'old ' || n, 'x', '', now() - interval '8 days' FROM generate_series(1, 3) n"""


def settings_of(folder: Path, more: str = "ledger_days = 0") -> Settings:
    file = folder / "node.toml"
    file.write_text(f"{LOCAL_CONFIG.format(name='10008', hub=1)}[database]\n{more}")
    return load(file, {})


def at(url: str) -> Any:
    """Return a store, of which the housekeeping needs the address only."""
    return SimpleNamespace(url=url)


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
    housekeeping = Housekeeping(at(database), clock, settings_of(tmp_path), ClockCheck(clock))
    assert count_tokens(database, INSERT_OLD_TOKENS) == 3
    await housekeeping.run_if_due()
    assert count_tokens(database) == 3
    clock.ahead = timedelta(seconds=AFTER_START_S)
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
        housekeeping = Housekeeping(
            at(database), clock, settings_of(tmp_path, "ledger_days = 0\n[http]\naudit_days = 3"), ClockCheck(clock)
        )
        clock.ahead = timedelta(seconds=AFTER_START_S)
        await housekeeping.run_if_due()
        assert connection.execute("SELECT count(*) FROM web_audit").fetchone() == (2,)
        with pytest.raises(psycopg.errors.RaiseException, match="only added"):
            connection.execute("DELETE FROM web_audit")


async def test_a_failed_run_is_repeated_after_five_minutes(database: str, tmp_path: Path) -> None:
    clock, store = ShiftedClock(), at(f"{database}_that_is_not_there")
    housekeeping = Housekeeping(store, clock, settings_of(tmp_path), ClockCheck(clock))
    count_tokens(database, INSERT_OLD_TOKENS)
    clock.ahead = timedelta(seconds=AFTER_START_S)
    await housekeeping.run_if_due()
    assert count_tokens(database) == 3
    store.url = database
    clock.ahead += timedelta(seconds=RETRY_S)
    await housekeeping.run_if_due()
    assert count_tokens(database) == 0


class JumpingClock(ShiftedClock):
    """A clock whose date jumps by ``jump`` while the monotonic clock goes on."""

    jump = timedelta(0)

    def wall(self) -> datetime:
        return super().wall() + self.jump


def partition_count(url: str, first: date) -> int:
    """Return how many of the four days from ``first`` on have a partition of the ledger."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'semq_ledger'::regclass"
        ).fetchall()
    names = {name for (name,) in found}
    return sum(partition_of(first + timedelta(day)) in names for day in range(4))


async def test_the_first_hour_after_a_start_makes_partitions_and_deletes_nothing(database: str, tmp_path: Path) -> None:
    """The log says why nothing was deleted."""
    clock = ShiftedClock()
    housekeeping = Housekeeping(at(database), clock, settings_of(tmp_path), ClockCheck(clock))
    count_tokens(database, INSERT_OLD_TOKENS)
    clock.ahead = timedelta(seconds=FIRST_S)
    with capture_logs() as logged:
        await housekeeping.run_if_due()
    assert "the node has started" in logged[-1]["nothing_deleted"]
    assert (count_tokens(database), partition_count(database, clock.wall().date())) == (3, 4)
    clock.ahead = timedelta(seconds=AFTER_START_S)
    with capture_logs() as logged:
        await housekeeping.run_if_due()
    assert logged[-1]["removed"]["tokens"] == 3
    assert count_tokens(database) == 0


async def test_nothing_is_deleted_while_the_dates_of_node_and_database_differ(database: str, tmp_path: Path) -> None:
    """The node starts with a wrong clock, and its database is on another machine."""
    clock = JumpingClock()
    clock.jump = timedelta(days=730)
    housekeeping = Housekeeping(at(database), clock, settings_of(tmp_path, "ledger_days = 400"), ClockCheck(clock))
    await tidy(database, datetime.now(UTC).date())
    count_tokens(database, INSERT_OLD_TOKENS)
    clock.ahead = timedelta(seconds=AFTER_START_S)
    await housekeeping.run_if_due()
    assert (count_tokens(database), partition_count(database, datetime.now(UTC).date())) == (3, 4)


async def test_nothing_is_deleted_for_some_days_after_the_clock_has_jumped_ahead(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is on the same machine: its date jumps, too."""
    clock = JumpingClock()

    async def same_date(connection: object) -> date:
        return clock.wall().date()

    monkeypatch.setattr(store_housekeeping, "_date_of", same_date)
    housekeeping = Housekeeping(at(database), clock, settings_of(tmp_path, "ledger_days = 400"), ClockCheck(clock))
    today = clock.wall().date()
    await tidy(database, today)
    clock.jump = timedelta(days=730)
    for seconds in (AFTER_START_S, AFTER_START_S + EVERY_S):
        clock.ahead = timedelta(seconds=seconds)
        housekeeping.make_due()
        await housekeeping.run_if_due()
        assert partition_count(database, today) == 4
    clock.ahead = timedelta(seconds=AFTER_START_S + AFTER_JUMP_S)
    await housekeeping.run_if_due()
    assert partition_count(database, today) == 0


async def test_a_node_runs_its_housekeeping_as_a_job(inprocess: InProcess) -> None:
    clock = ShiftedClock()
    settings = inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1))
    node = LocalNode(settings, clock)
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    [job] = [job for job in node.clockwork.jobs if job.name == "housekeeping"]
    url = str(settings.database.dsn)
    assert count_tokens(url, INSERT_OLD_TOKENS) == 3
    clock.ahead = timedelta(seconds=AFTER_START_S)
    await job.run()  # type: ignore[misc]
    assert count_tokens(url) == 0
