"""Applications send and receive in their own transactions: with them all is committed or nothing, and nobody waits."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text

from semq.errors import BadInput
from semq.store.migrate import engine_of
from semq.store.postgres_errors import NotWaiting
from semq.store.rows import InStream, InStreamKey, Pending, Recorded, Submitted
from semq.store.submit import done, insert_submission, receive, refusal_of
from semq.store.unit import DoneRows, Needs, SubmittedRows, Unit
from semq.umx_t.address import Address
from semq.umx_t.locator import LK0, Pos, Store
from semq.umx_t.status import AppStatus, Arrival, SaveFwd
from tests.store.jobs import Job, body_of
from tests.store.test_writer import Life, column, living

SOURCE = InStreamKey(Store(1, "a"), 9)


@pytest.fixture
def application(database: str) -> Iterator[Connection]:
    with engine_of(database).connect() as connection:
        yield connection


async def seen(life: Life, *queries: Any) -> Unit:
    units: list[Unit] = []
    assert await life.do(Job(units.append, Needs(queries=set(queries)))) == [None]
    return units[0]


# ---------------------------------------------------------------------------------------------------------- sending


async def test_a_submission_arrives_with_the_transaction_that_made_it(database: str, application: Connection) -> None:
    query = SubmittedRows(10)
    async with living(database) as life:
        number = insert_submission(
            application,
            "56001/buyer",
            b"\x00\xff",
            app_key="trade/order/standard/S1",
            ack2=False,
            order_key="k",
            token="t",
            content_type="text/plain",
            headers={"a": [1, None]},
        )
        assert (await seen(life, query)).found[query] == []
        application.commit()
        await life.rang.wait()
        assert (await seen(life, query)).found[query] == [
            Submitted(
                number, "56001/buyer", b"\x00\xff", "trade/order/standard/S1", 3, 0, "k", "t", "text/plain",
                {"a": [1, None]},
            )
        ]  # fmt: skip
        insert_submission(application, "56001", b"never")
        application.rollback()
        assert len((await seen(life, query)).found[query]) == 1


async def test_each_submission_is_taken_or_refused_with_the_reason(database: str, application: Connection) -> None:
    def settle(unit: Unit) -> None:
        (first, second) = unit.found[SubmittedRows(10)]
        unit.taken_submissions.add(first.row_id)
        unit.refused_submissions[second.row_id] = ("SEMQ-1101", "no such institution")

    async with living(database) as life:
        numbers = [insert_submission(application, target, b"x") for target in ("56001", "99999")]
        application.commit()
        assert await life.do(Job(settle, Needs(queries={SubmittedRows(10)}))) == [None]
        assert [refusal_of(application, number) for number in numbers] == [None, ("SEMQ-1101", "no such institution")]
        assert (await seen(life, SubmittedRows(10))).found[SubmittedRows(10)] == []
        assert column(database, "SELECT number FROM tb_0031_submit") == numbers[1:]


async def test_large_submissions_come_a_few_at_a_time(database: str, application: Connection) -> None:
    async with living(database) as life:
        for _ in range(4):
            insert_submission(application, "56001", bytes(7_000_000))
        application.commit()
        assert len((await seen(life, SubmittedRows(10))).found[SubmittedRows(10)]) == 3


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"target": "no such address"}, "SEMQ-1101"),
        ({"save_fwd": 4}, "SEMQ-1102"),
        ({"app_key": "one/two"}, "SEMQ-1103"),
        ({"app_key": f"a/b/c/{'x' * 129}"}, "SEMQ-1103"),
        ({"order_key": "k", "save_fwd": 2}, "SEMQ-1104"),
        ({"order_key": "k" * 129}, "SEMQ-1102"),
        ({"token": "k" * 201}, "SEMQ-1102"),
    ],
)
def test_what_is_plainly_wrong_is_refused_at_once(application: Connection, facts: dict[str, Any], code: str) -> None:
    with pytest.raises(BadInput, match=code):
        insert_submission(application, **{"target": "56001", "payload": b"", **facts})


@pytest.mark.parametrize(
    "arguments", ["NULL, 'x'", "'56001', NULL", "'56001', 'x', ack2 => 2", "'1', 'x', headers => '[]'"]
)
def test_sql_callers_are_refused_too(database: str, arguments: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.InvalidParameterValue, match="SEMQ-110"):
        connection.execute(f"SELECT semq_send({arguments})".encode())


def test_other_faults_are_not_hidden(database: str) -> None:
    with engine_of(database).connect() as connection:
        connection.execute(text("DROP FUNCTION semq_send"))
        with pytest.raises(Exception, match="semq_send"):
            insert_submission(connection, "56001", b"")


# -------------------------------------------------------------------------------------------------------- receiving


def arriving(*rows: Pending, floor: int = 0, closed: int | None = None) -> Job:
    def decide(unit: Unit) -> None:
        stream = unit.in_streams.get(SOURCE) or InStream(SOURCE, 1)
        unit.in_streams[SOURCE] = stream
        stream.closed = closed
        unit.changed_in_streams.add(SOURCE)
        unit.raise_floor(stream, floor)
        for row in rows:
            unit.record(row.slot, Recorded(row.status))
            unit.insert_pending(row, body_of(row.bref))

    return Job(decide, Needs(in_streams={SOURCE}))


def document(bref: int, sid: int, prev: int | None = None, user: str = "", **facts: Any) -> Pending:
    facts = {"status": Arrival.RECV, "order_key": "" if prev is None else "k", **facts}
    return Pending(
        bref, LK0(*SOURCE.store, SOURCE.inc, sid + 1), sid, Address(1, "b", user), SaveFwd.MUST, ack2=True,
        prev=None if prev is None or prev < 0 else Pos(SOURCE.inc, prev), **facts,
    )  # fmt: skip


async def finish(life: Life) -> None:
    """What the node does with documents that applications have finished."""

    def decide(unit: Unit) -> None:
        for bref in unit.found[DoneRows(10)]:
            unit.handled[bref] = AppStatus.DONE
            unit.taken_done.add(bref)

    assert await life.do(Job(decide, Needs(queries={DoneRows(10)}))) == [None]


async def test_a_document_is_finished_with_the_transaction_that_used_it(database: str, application: Connection) -> None:
    async with living(database) as life:
        await life.do(arriving(document(5, 0)))
        (first,) = receive(application, at_most=5)
        assert (first.bref, first.source, first.payload) == (5, "1.a.1.1", body_of(5).payload)
        done(application, 5)
        application.rollback()
        assert len(receive(application)) == 1  # it waits again
        done(application, 5)
        application.commit()
        await life.rang.wait()
        assert life.heard == ["semq_done"]
        assert receive(application) == []
        await finish(life)
        assert column(database, "SELECT app_status FROM tb_0030") == [AppStatus.DONE]
        assert column(database, "SELECT bref FROM tb_0030_done") == []
        with pytest.raises(NotWaiting):
            done(application, 5)


async def test_two_workers_never_hold_the_same_document(database: str, application: Connection) -> None:
    async with living(database) as life:
        await life.do(arriving(document(1, 0), document(2, 1), document(3, 2)))
        with engine_of(database).connect() as other:
            assert [d.bref for d in receive(application)] == [1]
            assert [d.bref for d in receive(other, at_most=5)] == [2, 3]
            other.rollback()
            assert [d.bref for d in receive(application, at_most=5)] == [1, 2, 3]
        # The node's writer waits for none of them: advisory locks, not row locks.
        assert await life.do(Job(lambda unit: unit.sender_acked.add(1))) == [None]


async def test_finishing_twice_at_once_is_refused(database: str, application: Connection) -> None:
    async with living(database) as life:
        await life.do(arriving(document(1, 0)))
        done(application, 1)
        with pytest.raises(NotWaiting):
            done(application, 1)


async def test_each_user_has_an_inbox(database: str, application: Connection) -> None:
    async with living(database) as life:
        await life.do(arriving(document(1, 0), document(2, 1, user="buyer"), document(3, 2, status=Arrival.VOID)))
        assert [d.bref for d in receive(application, at_most=5)] == [1]
        assert [d.bref for d in receive(application, "buyer", at_most=5)] == [2]


async def test_order_is_kept_within_a_key_alone(database: str, application: Connection) -> None:
    """PROTOCOL.md section 11: number 1 of the key is missing, number 2 waits for it, others go on."""
    async with living(database) as life:
        await life.do(arriving(document(1, 2, prev=1), document(2, 3), document(3, 0, prev=-1)))
        assert [d.bref for d in receive(application, at_most=5)] == [2, 3]
        done(application, 3)
        application.commit()
        await life.do(arriving(document(4, 1, prev=0)))
        assert [d.bref for d in receive(application, at_most=5)] == [2, 4]  # recorded after its successor, given before
        done(application, 4)
        assert [d.bref for d in receive(application, at_most=5)] == [1, 2]  # in the same transaction already


@pytest.mark.parametrize(
    ("floor", "closed", "given"), [(0, None, []), (1, None, []), (2, None, [1]), (0, 1, [1]), (0, 2, [])]
)
async def test_a_settled_predecessor_is_not_waited_for(
    database: str, application: Connection, floor: int, closed: int | None, given: list[int]
) -> None:
    async with living(database) as life:
        await life.do(arriving(document(1, 2, prev=1), floor=floor, closed=closed))
        assert [d.bref for d in receive(application)] == given
