"""Rows that the writer has committed are not loaded again, and never differ from those in the database."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from semq.store import recent_rows as module
from semq.store.postgres.pipeline import PipelineWire
from semq.store.recent_rows import RecentRows
from semq.store.rows import InStream, Outbound, OutStream, OutStreamKey, Recorded, Slot
from semq.store.unit import Needs, Unit
from semq.umx_t.status import AppStatus, Arrival, SaveFwd
from tests.store.jobs import DESTS, INC, SOURCES, Job, body_of, own, pending_row
from tests.store.postgres.test_store import do, opened

STREAM = SOURCES[0]


def committed(change: Callable[[Unit], Any]) -> RecentRows:
    """Return the recent rows after one unit."""
    recent = RecentRows()
    commit(recent, change)
    return recent


def commit(recent: RecentRows, change: Callable[[Unit], Any]) -> None:
    unit = Unit()
    change(unit)
    recent.note_commit(unit)


def sent(number: int) -> Outbound:
    """Return a new row without a position."""
    return own(number, 2)


def insert(number: int) -> Callable[[Unit], None]:
    return lambda unit: unit.insert_outbound(sent(number), body_of(number))


def insert_pending(unit: Unit) -> None:
    unit.insert_pending(pending_row(1, STREAM, SaveFwd.MUST, Arrival.RECV, 0), body_of(1))


def test_a_new_row_is_given_to_one_unit() -> None:
    recent = committed(insert(1))
    assert recent.take("outbound", {1, 2}) == ({1: sent(1)}, [2])
    assert recent.take("outbound", {1}) == ({}, [1])


def test_a_row_that_a_later_unit_has_changed_without_asking_is_loaded() -> None:
    recent = committed(lambda unit: (insert(1)(unit), insert(2)(unit), insert(3)(unit)))

    def change(unit: Unit) -> None:
        unit.outbound[1] = sent(1)
        unit.change_outbound(unit.outbound[1], sent(1).ss_status)
        unit.delete_outbound(sent(2))

    commit(recent, change)
    assert recent.take("outbound", [1, 2, 3]) == ({3: sent(3)}, [1, 2])


@pytest.mark.parametrize("field", ["platform_acked", "sender_acked", "given", "taken_back", "deleted_pending"])
def test_a_received_row_that_a_statement_changes_by_its_number_is_loaded(field: str) -> None:
    recent = committed(insert_pending)
    commit(recent, lambda unit: getattr(unit, field).add(1))
    assert recent.take("pending", [1]) == ({}, [1])


def test_a_received_row_that_the_application_has_answered_is_loaded() -> None:
    recent = committed(insert_pending)
    commit(recent, lambda unit: unit.changed_app_status.update({1: AppStatus.PARKED}))
    assert recent.take("pending", [1]) == ({}, [1])


def test_the_oldest_rows_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 2)
    recent = committed(lambda unit: [insert(number)(unit) for number in (1, 2, 3)])
    assert recent.take("outbound", [1, 2, 3]) == ({2: sent(2), 3: sent(3)}, [1])


def test_too_many_streams_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAMS_MAX", 1)
    recent = committed(lambda unit: unit.in_streams.update({key: InStream(key, 7) for key in SOURCES}))
    assert recent.take("in_streams", SOURCES) == ({}, list(SOURCES))
    assert recent.may_be_recorded(STREAM, 0)


def test_a_position_above_the_highest_recorded_one_needs_no_search() -> None:
    def record(unit: Unit) -> None:
        unit.in_streams[STREAM] = InStream(STREAM, 7)
        unit.record(Slot(STREAM, 5), Recorded(Arrival.RECV))

    recent = RecentRows()
    assert recent.may_be_recorded(STREAM, 0)
    commit(recent, record)
    assert [recent.may_be_recorded(STREAM, sid) for sid in (4, 5, 6)] == [True, True, False]
    recent.clear()
    assert recent.may_be_recorded(STREAM, 6)


def test_a_loaded_stream_keeps_its_highest_position() -> None:
    recent = RecentRows()
    recent.note_top(STREAM, 9)
    commit(recent, lambda unit: unit.in_streams.update({STREAM: InStream(STREAM, 7)}))
    assert [recent.may_be_recorded(STREAM, sid) for sid in (9, 10)] == [True, False]


def test_a_closed_stream_is_loaded_because_it_may_have_been_deleted() -> None:
    recent = committed(lambda unit: unit.in_streams.update({STREAM: InStream(STREAM, 7, closed=3)}))
    assert recent.take("in_streams", [STREAM]) == ({}, [STREAM])


async def test_a_unit_whose_rows_are_recent_loads_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    send = PipelineWire.send

    def noted(wire: PipelineWire, batch: Any) -> Any:
        statements.extend(name for name, _ in batch)
        return send(wire, batch)

    key = OutStreamKey(str(DESTS[0]), INC)

    def accept(unit: Unit) -> None:
        insert(1)(unit)
        unit.out_streams[key] = OutStream(key, 1)
        unit.changed_out_streams.add(key)

    found: list[tuple[Outbound, OutStream]] = []

    def look(unit: Unit) -> None:
        found.append((unit.outbound[1], unit.out_streams[key]))

    needs = Needs(outbound={1}, out_streams={key})
    async with opened(database) as store:
        await do(store, Job(accept))
        monkeypatch.setattr(PipelineWire, "send", noted)
        await do(store, Job(look, needs))
        assert not {"outbound", "out_streams"} & set(statements)
        await do(store, Job(look, needs))
        assert "outbound" in statements
    assert found == [(sent(1), OutStream(key, 1))] * 2


def update_all(connection: Connection) -> None:
    connection.exec_driver_sql("UPDATE tb_0031 SET ss_status = 20")
    connection.commit()


async def test_after_a_refused_unit_all_rows_are_loaded(database: str) -> None:
    """The row was changed behind the back of the writer; the unit fails, and the next one sees the change."""
    seen: list[int] = []

    def change(unit: Unit) -> None:
        row = unit.outbound[2]
        seen.append(row.ss_status)
        unit.delete_outbound(row)

    first, second = Job(change, Needs(outbound={2})), Job(change, Needs(outbound={2}))
    async with opened(database) as store:
        await do(store, Job(lambda unit: (insert(1)(unit), insert(2)(unit))))
        await store.execute(update_all)
        await do(store, first)
        assert first.results != [None]
        await do(store, second)
        assert second.results == [None]
    assert seen[-1] == 20
