"""Queries beside the writer: the connections, and the end of a session whose process is suspended."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, text

from semq.store import reader
from semq.store.embedded.errors import ServerTooOld
from semq.store.postgres.connections import SharedReaders
from semq.store.postgres.errors import StoreUnavailable
from semq.store.reader import Reader


@pytest.mark.parametrize("through", ["SQLAlchemy", "psycopg"])
async def test_a_process_that_is_suspended_in_a_transaction_keeps_no_locks(
    database: str, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    monkeypatch.setattr(reader, "ENDED_IF_SUSPENDED", "-c idle_in_transaction_session_timeout=0.2s")
    resumed = threading.Event()

    def suspended(connection: Connection) -> None:
        with connection.begin():
            connection.execute(text("UPDATE semq_meta SET boot = 7"))
            with psycopg.connect(database) as other:
                other.execute("UPDATE semq_meta SET boot = 8")
            resumed.set()
            if through == "psycopg":
                driver = connection.connection.driver_connection
                assert isinstance(driver, psycopg.Connection)
                driver.execute("SELECT 1")
            connection.execute(text("SELECT 1"))

    with psycopg.connect(database) as first:
        first.execute("INSERT INTO semq_meta (store_uuid, boot) VALUES (gen_random_uuid(), 1)")
    queries = Reader(lambda: database)
    with pytest.raises(StoreUnavailable):
        await queries.execute(suspended)
    assert resumed.is_set()
    assert await queries.execute(lambda connection: connection.scalar(text("SELECT boot FROM semq_meta"))) == 8
    await queries.close()


async def test_the_options_of_the_address_or_the_environment_are_kept(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("work_mem", "statement_timeout", "idle_in_transaction_session_timeout")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=66MB")

    def settings(connection: Connection) -> list[str]:
        return [connection.execute(text(f"SHOW {name}")).scalar_one() for name in names]

    with ThreadPoolExecutor() as threads:
        for url, work_mem in (make_conninfo(database, options="-c work_mem=77MB"), "77MB"), (database, "66MB"):
            queries = Reader(partial(str, url), SharedReaders(threads))
            assert await queries.execute(settings) == [work_mem, "1min", "10s"]
            await queries.close()


async def test_a_server_that_does_not_know_a_setting_of_each_session_is_too_old(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SESSION", "-c idle_session_timeout_of_later_servers=0")
    queries = Reader(lambda: database)
    with pytest.raises(StoreUnavailable) as caught:
        await queries.execute(lambda connection: None)
    assert caught.value.remedy == ServerTooOld.remedy
    await queries.close()
