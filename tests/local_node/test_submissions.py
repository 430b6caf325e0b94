"""Rows that applications wrote through SQL: one partner that must wait holds up neither the node nor the others."""

from dataclasses import replace

import psycopg
import pytest

from local_node.submissions import BATCH, SqlSubmissions
from semq.store.rows import Submitted
from semq.umx_t.agreement import Terms
from tests.flows.trio import SETTINGS, Trio
from tests.service.inprocess import InProcess, linked, until


def written(trio: Trio, *targets: str) -> None:
    tables = trio.a.store.tables
    for number, target in enumerate(targets, 1):
        tables.submitted[number] = Submitted(number, target, b"x", "", 3, 1, "", "", "", {})


def waiting(trio: Trio) -> list[str]:
    tables = trio.a.store.tables
    return [row.target for number, row in tables.submitted.items() if number not in tables.refused]


def test_rows_above_the_rate_of_an_agreement_wait_and_hold_up_nobody() -> None:
    trio = Trio()
    trio.a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)
    written(trio, *["56001"] * (BATCH + 2), "10008")
    submissions = SqlSubmissions(lambda: trio.a.engine, lambda: None)
    submissions.poll()
    for _ in range(20):
        trio.a.store.run()
    assert trio.a.store.idle  # it does not look again and again
    assert waiting(trio) == ["56001"] * (BATCH + 1)
    trio.time.now += 61
    submissions.poll()
    trio.settle()
    assert waiting(trio) == ["56001"] * BATCH
    assert not trio.a.store.tables.refused


def test_a_row_that_is_taken_in_the_unit_of_the_next_look_is_not_taken_again() -> None:
    trio = Trio()
    written(trio, "56001")
    submissions = SqlSubmissions(lambda: trio.a.engine, lambda: None)
    submissions.poll()
    trio.a.store.run()  # found, and handed to the engine
    submissions.poll()
    trio.settle()
    assert trio.b.app.payloads == [b"x"]


def test_rows_above_a_quota_wait_with_a_reason_and_go_on_when_there_is_room() -> None:
    trio = Trio(replace(SETTINGS, quota_rows=1), connected=False)
    submissions = SqlSubmissions(lambda: trio.a.engine, lambda: None)
    written(trio, "56001")
    submissions.poll()
    trio.settle()
    assert trio.a.engine.rows.unsettled == {"1.56001": 1}
    tables = trio.a.store.tables
    tables.submitted |= {
        n: Submitted(n, target, b"x", "", 3, 1, "", "", "", {}) for n, target in ((2, "56001"), (3, "10008"))
    }
    for _ in range(2):
        submissions.poll()
        trio.settle()
    assert waiting(trio) == ["56001"]
    assert not tables.refused
    assert submissions.waiting.keys() == {"56001"}
    assert submissions.waiting["56001"].startswith("SEMQ-1204")
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.settle()
    for _ in range(2):
        submissions.poll()
        trio.settle()
    assert waiting(trio) == []
    assert submissions.waiting == {}


async def test_the_same_in_postgres(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_node.submissions.BATCH", 2)
    hub = await inprocess.platform()
    a = await inprocess.local("10008", hub.port)
    await linked(a)
    a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)

    def left() -> list[str]:
        with psycopg.connect(a.store.url) as connection:
            return [row[0] for row in connection.execute("SELECT target FROM tb_0031_submit ORDER BY number")]

    with psycopg.connect(a.store.url) as connection:
        for target in ("56001", "56001", "56001", "56001", "10008"):
            connection.execute("SELECT semq_send(%s, 'x'::bytea)", (target,))
    await until(lambda: "10008" not in left())
    assert left() == ["56001"] * 3
