"""A tablespace without room: nothing that was committed is missing, and the store goes on when there is room again."""

import os
from pathlib import Path

import psycopg
import pytest

from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.errors import StoreUnavailable
from semq.store.rows import Stored
from semq.store.unit import Unit
from tests.mounts import mount, mounted
from tests.store.jobs import Job, own
from tests.store.postgres.notified_store import open_notified_store, run, stored

DISK = 4 << 20  # bytes
NUMBERS = range(1, 100)


def accepting(number: int, size: int) -> Job:
    def decide(unit: Unit) -> None:
        unit.insert_outbound(own(number, 2), Stored(b"{}", os.urandom(size)))

    return Job(decide)


@pytest.mark.parametrize("size", [100_000, 300_000])  # by INSERT, and by COPY
async def test_a_full_tablespace_loses_nothing_and_rejects_no_document(
    postgres: EmbeddedPostgres, database: str, tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    place = Path(tmp_path_factory.mktemp("small"))
    with mounted(place, "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs"):
        owner = postgres.data.stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        run(database, f"CREATE TABLESPACE small LOCATION '{place}'")
        run(database, "ALTER TABLE tb_0031_body SET TABLESPACE small")
        try:
            committed: list[int] = []
            error: Exception | None = None
            async with open_notified_store(database) as notified:
                for number in NUMBERS:
                    [error] = await notified.do(accepting(number, size))
                    if error is not None:
                        break
                    committed.append(number)
                assert isinstance(error, StoreUnavailable)
                assert "space" in str(error)
                await notified.lost.wait()
                await notified.reopen()
                assert stored(database) == committed
                mount(place, "-o", f"remount,size={16 * DISK}")
                assert await notified.do(accepting(1000, size)) == [None]
            assert stored(database) == [*committed, 1000]
        finally:
            run(database, "ALTER TABLE tb_0031_body SET TABLESPACE pg_default")
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute("DROP TABLESPACE small")
