"""Rows of the store: a proved document replaces a forgery; a receipt replaces an outcome that only the hub stated;
semq_inbox shows rows with any time.
"""

from typing import Any

import psycopg
import pytest

from semq.engine.stored_envelopes import encode_envelope
from semq.store.rows import InStream, OutStream, OutStreamKey, Recorded, Slot, Stored
from semq.store.unit import Needs, Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import LK0
from semq.umx_t.status import Arrival, Outcome, SendStatus
from tests.store.jobs import INC, SOURCES, Job, body_of, own, pending_row
from tests.store.postgres.test_store import do, opened

SLOT = Slot(SOURCES[0], 3)
NEEDS = Needs(in_streams={SOURCES[0]}, recorded={SLOT}, outbound={1, 2})


def record_forgery(unit: Unit) -> None:
    unit.in_streams[SOURCES[0]] = InStream(SOURCES[0], 1)
    unit.changed_in_streams.add(SOURCES[0])
    _record(unit, 1, Recorded(Arrival.RECV, b"forged"))


def record_proved(unit: Unit) -> None:
    unit.replace_recorded(SLOT)
    _record(unit, 2, Recorded(Arrival.RECV, b"true", proved=True))


def _record(unit: Unit, bref: int, entry: Recorded) -> None:
    row = pending_row(bref, SOURCES[0], own(1).save_fwd, Arrival.RECV, 0)
    row.sid, row.proved, row.digest = SLOT.sid, entry.proved, entry.digest
    unit.record(SLOT, entry)
    unit.insert_pending(row, body_of(bref))


async def test_a_proved_document_replaces_a_forgery_and_is_not_replaced(database: str) -> None:
    seen: list[Any] = []
    read_back = Job(lambda unit: seen.append(unit.recorded.get(SLOT)), NEEDS)
    second_replacement = Job(record_proved, NEEDS)
    async with opened(database) as store:
        for job in (Job(record_forgery, NEEDS), Job(record_proved, NEEDS), read_back, second_replacement):
            await do(store, job)
        assert [type(error).__name__ for error in second_replacement.results] == ["RowRefused"]
        query = "SELECT bref, proved FROM tb_0030 ORDER BY 1"
        assert await store.execute(lambda c: c.exec_driver_sql(query).all()) == [(1, False), (2, True)]
    assert seen == [Recorded(Arrival.RECV, b"true", proved=True)]
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT digest, proved FROM tb_0030_ledger").fetchall() == [(b"true", True)]
        connection.execute("SELECT bref, proved FROM semq_inbox")


@pytest.mark.parametrize("at", [0, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1])
async def test_an_impossible_time_of_a_sender_does_not_stop_the_inbox(database: str, at: int) -> None:
    there, here = Address(1, "10008"), Address(1, "56001")
    shown = Envelope(
        source=there, target=here, lk0=LK0(*there[:2], 1, 1, 1, 1), attributes=Attributes(), submitted_at=at,
        sender="buyer",
    )  # fmt: skip

    def record(unit: Unit) -> None:
        row = pending_row(1, SOURCES[0], own(1).save_fwd, Arrival.RECV, 0)
        row.sid = SLOT.sid
        unit.in_streams[SOURCES[0]] = InStream(SOURCES[0], 1)
        unit.changed_in_streams.add(SOURCES[0])
        unit.record(SLOT, Recorded(Arrival.RECV, b""))
        unit.insert_pending(row, Stored(encode_envelope(shown), b"x"))

    async with opened(database) as store:
        await do(store, Job(record, NEEDS))
    with psycopg.connect(database, options="-c timezone=Pacific/Kiritimati") as connection:
        rows = connection.execute("SELECT submitted_at, payload, source FROM semq_inbox").fetchall()
    assert rows == [(None, b"x", "1.a/buyer")]


def insert_two_ended_rows(unit: Unit) -> None:
    for number, outcome in ((1, Outcome.REJECTED), (2, Outcome.CANCELLED)):
        row = own(number)
        row.sid, row.ss_status, row.outcome = number - 1, SendStatus.SS_SENT, outcome
        unit.insert_outbound(row, body_of(number))
    key = OutStreamKey(own(1).dest, INC)
    unit.out_streams[key] = OutStream(key, 2)
    unit.changed_out_streams.add(key)


def delivered(number: int) -> Job:
    def decide(unit: Unit) -> None:
        row = unit.outbound[number]
        before = row.ss_status
        row.ss_status, row.outcome = SendStatus.SS_ACK2, Outcome.DELIVERED
        unit.change_outbound(row, before)

    return Job(decide, NEEDS)


async def test_only_outcomes_stated_by_the_hub_alone_are_corrected(database: str) -> None:
    right, wrong = delivered(1), delivered(2)
    async with opened(database) as store:
        for job in (Job(insert_two_ended_rows, NEEDS), right, wrong):
            await do(store, job)
    assert right.results == [None]
    assert wrong.results[0] is not None
    with psycopg.connect(database) as connection:
        outcomes = connection.execute("SELECT outcome FROM tb_0031 ORDER BY object_id").fetchall()
    assert outcomes == [(Outcome.DELIVERED,), (Outcome.CANCELLED,)]


@pytest.mark.parametrize("name", ["tb_0030", "tb_0030_ledger"])
def test_a_new_row_without_a_statement_about_its_proof_counts_as_unproved(database: str, name: str) -> None:
    with psycopg.connect(database) as connection:
        default = connection.execute(
            "SELECT column_default FROM information_schema.columns WHERE table_name = %s AND column_name = 'proved'",
            [name],
        ).fetchone()
    assert default == ("false",)
