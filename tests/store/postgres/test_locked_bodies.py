"""Encrypted bodies: unreadable in the database, readable for the node, also after a restart."""

import asyncio
from typing import Any

import psycopg
import pytest

from semq.seal.errors import VaultLocked
from semq.seal.vault import Vault
from semq.store.postgres.locked_bodies import DAMAGED, Locking
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Outbound, Pending, Stored
from semq.store.unit import Needs, Unit, Unsent, Waiting
from semq.umx_t.address import Address
from semq.umx_t.locator import LK0
from semq.umx_t.status import Arrival, Direction, SaveFwd
from tests.store.jobs import Job
from tests.store.postgres.test_store import opened

MASTER, SECRET = b"a master key of some length", b"PLANTED quince brandy"
FIRST, TARGET = LK0(1, "10008", 1, 1, 7, 1), Address(1, "56001")
NEEDS = Needs(bodies={1, 2}, queries={Unsent(str(TARGET), 0, 10), Waiting("", str(FIRST.node), 0, 0, 10)})


def vault(salt: int = 0, master: bytes = MASTER) -> Vault:
    return Vault(master, bytes([salt] * 32), bytes)


async def perform(store: PostgresStore, job: Job) -> None:
    store.post(job)
    async with asyncio.timeout(60):
        await job.over.wait()
    assert job.results == [None]


def stage(unit: Unit) -> None:
    """Store two documents to be sent, a received document and a refused one."""
    for number in (1, 2):
        row = Outbound(number, Direction.OWN, FIRST._replace(object_id=number), TARGET, SaveFwd.MUST, True, sid=number)
        unit.insert_outbound(row, Stored(b"envelope", SECRET))
    for number, status in ((3, Arrival.RECV), (4, Arrival.REJ)):
        lk0 = FIRST._replace(object_id=number)
        row_ = Pending(number, lk0, number, TARGET, SaveFwd.MUST, True, status)
        unit.insert_pending(row_, Stored(b"envelope", SECRET))


def replace_second_body(unit: Unit) -> None:
    unit.replace_body(2, Stored(b"envelope", SECRET + b" again"))


async def bodies(store: PostgresStore) -> dict[int, bytes]:
    seen: dict[int, bytes] = {}

    def note_bodies(unit: Unit) -> None:
        seen.update({key: body.payload for key, body in (unit.bodies | unit.pending_bodies).items()})

    await perform(store, Job(note_bodies, NEEDS))
    return seen


def stored(database: str) -> bytes:
    with psycopg.connect(database) as connection:
        tables = ("tb_0031_body", "tb_0030_body")
        sent, received = (connection.execute(f"SELECT payload FROM {table}".encode()).fetchall() for table in tables)
    assert (len(sent), len(received)) == (2, 2)
    return b"".join(payload for (payload,) in (*sent, *received))


async def test_bodies_are_unreadable_in_the_database_and_readable_for_the_node(database: str) -> None:
    async with opened(database, vault=vault(1)) as store:
        await perform(store, Job(stage))
        await perform(store, Job(replace_second_body, Needs(outbound={2}, bodies={2})))
        assert await bodies(store) == {1: SECRET, 2: SECRET + b" again", 3: SECRET, 4: SECRET}
    assert SECRET not in stored(database)
    async with opened(database, vault=vault(2)) as store:
        assert await bodies(store) == {1: SECRET, 2: SECRET + b" again", 3: SECRET, 4: SECRET}


async def test_bodies_written_before_the_encryption_are_read(database: str) -> None:
    async with opened(database) as store:
        await perform(store, Job(stage))
    assert SECRET in stored(database)
    async with opened(database, vault=vault()) as store:
        assert set((await bodies(store)).values()) == {SECRET}


@pytest.mark.parametrize("other_vault", [None, vault(0, b"another master key of it")])
async def test_a_node_without_the_right_master_key_does_not_start(database: str, other_vault: Vault | None) -> None:
    async with opened(database, vault=vault()):
        pass
    with pytest.raises(VaultLocked):
        async with opened(database, vault=other_vault):
            pass
    async with opened(database, vault=vault(3)):
        pass


def test_a_body_that_was_moved_to_another_row_cannot_be_decrypted() -> None:
    locking = Locking(vault())
    rows: dict[str, Any] = {"tb_0031_body": [(1, b"envelope", SECRET), (2, b"envelope", b"")]}
    locking.lock([], rows)
    locked = rows["tb_0031_body"][0][2]
    assert rows["tb_0031_body"][1][2] == b""
    assert locking.unlock("tb_0031_body", 1, locked) == SECRET
    for table, key in (("tb_0031_body", 2), ("tb_0030_body", 1)):
        with pytest.raises(VaultLocked):
            locking.unlock(table, key, locked)
    assert Locking(None).lock([], rows) == []
    assert Locking(None).unlock("tb_0031_body", 1, SECRET) == SECRET


async def test_a_damaged_body_is_marked_and_logged_and_does_not_end_the_store(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    faults: list[Exception] = []
    async with opened(database, vault=vault(), lost=faults.append) as store:
        await perform(store, Job(stage))
        with psycopg.connect(database) as connection:
            connection.execute(
                "UPDATE tb_0031_body SET payload = set_byte(payload, length(payload) - 1,"
                " get_byte(payload, length(payload) - 1) # 1) WHERE object_id = 1"
            )
        seen: dict[int, Stored] = {}
        await perform(store, Job(lambda unit: seen.update(unit.bodies), needs=Needs(bodies={1, 2})))
        assert seen[1] == DAMAGED
        assert seen[2] != DAMAGED
    assert faults == []
    assert "table='tb_0031_body' key=1" in caplog.text
