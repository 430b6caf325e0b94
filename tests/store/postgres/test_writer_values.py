"""Values that cannot be read, exceed a limit of Postgres, or are refused at the commit: only their work fails."""

from secrets import token_hex

import pytest

from semq.store.postgres import refusals
from semq.store.postgres.errors import RowRefused, StoreUnavailable
from semq.store.rows import OrderKey
from semq.store.unit import Needs, Unit, Unsettled
from semq.umx_t.locator import Pos
from tests.store.jobs import INC, Job, accept
from tests.store.postgres.notified_store import NO_TRANSACTIONS, accepting, column, open_notified_store, run, stored


async def test_work_whose_rows_cannot_be_read_fails_alone(database: str, caplog: pytest.LogCaptureFixture) -> None:
    async with open_notified_store(database) as notified:
        assert await notified.do(accepting(1), accepting(2)) == [None, None]
        run(database, "UPDATE tb_0031 SET lk0 = 'no locator' WHERE object_id = 1")
        reads_row, reads_query = Job(needs=Needs(outbound={1})), Job(needs=Needs(queries={Unsettled(1, 9, 9)}))
        run(database, "UPDATE tb_0031 SET ss_status = 20 WHERE object_id = 1")
        caplog.clear()
        reads_nothing = Job(lambda unit: accept(unit, 3, 2))
        results = await notified.do(Job(needs=Needs(outbound={2})), reads_row, reads_query, reads_nothing)
        assert [type(result) for result in results] == [type(None), RowRefused, RowRefused, type(None)]
        assert (stored(database), notified.faults) == ([1, 2, 3], [])
        assert "A row cannot be read" in caplog.text


async def test_a_value_that_exceeds_a_limit_of_postgres_fails_alone(database: str) -> None:
    def order_too_long(unit: Unit) -> None:
        key = OrderKey("1.56001", token_hex(8_000))  # an index has at most 2,704 bytes for it
        unit.last_pos[key] = Pos(INC, 1)
        unit.changed_last_pos.add(key)

    async with open_notified_store(database) as notified:
        first, refused, last = await notified.do(accepting(1), Job(order_too_long), accepting(2))
        assert isinstance(refused, RowRefused)
        assert (first, refused.facts["sqlstate"], last, notified.faults) == (None, "54000", None, [])


async def test_a_limit_of_the_whole_server_refuses_no_work_for_good(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "OF_SERVER", ("exec_stmt_raise",))
    async with open_notified_store(database) as notified:
        run(database, NO_TRANSACTIONS.format("INSERT ON tb_0031"))
        result = await notified.do(accepting(1), accepting(2))
        assert [type(error) for error in result] == [StoreUnavailable, StoreUnavailable]
        await notified.lost.wait()
        run(database, "DROP FUNCTION refuse CASCADE")
        await notified.reopen()
        assert await notified.do(accepting(1)) == [None]


async def test_a_row_that_postgres_refuses_at_the_commit_fails_alone(database: str) -> None:
    """A batch of statements is one transaction, which ends at the end of the batch."""
    run(database, """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.object_id = 7 THEN RAISE EXCEPTION 'not seven'; END IF; RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON tb_0031 DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse()""")  # fmt: skip
    async with open_notified_store(database) as notified:
        result = await notified.do(accepting(1), accepting(7), accepting(2))
        assert result[0] is result[2] is None
        assert isinstance(result[1], RowRefused)
        assert stored(database) == [1, 2]
        assert column(database, "SELECT count(*) FROM semq_ledger") == [2]
