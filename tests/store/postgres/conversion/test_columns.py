"""The lists of columns and fields are complete and equal to the schema; a row is loaded as it was written."""

from typing import Any

import pytest
from msgspec.structs import fields, replace
from sqlalchemy import DateTime, Table

from semq.store import tables
from semq.store.postgres.conversion.binary import EPOCH_MS
from semq.store.postgres.conversion.columns import OUTBOUND, PENDING, read_table, reader, writer
from semq.store.postgres.conversion.rows import (
    CHANGES,
    outbound_of,
    outbound_values,
    pack_changes,
    pending_of,
    pending_values,
)
from semq.store.rows import GroupPlace, Outbound, Pending
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.locator import LK0, LK1, Pos
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

HERE = LK0(1, "10008", 1, 2, 0xABCDEF, 77)
SENT = Outbound(
    77, Direction.OWN, HERE, Address(1, "10009", "buyer"), SaveFwd.MUST, True, SendStatus.SS_ACK, 3, 5,
    Pos(4, 2), "order", AppKey("bank", "invoice", "new", "8/15"), "token", LK1(2, 1, 44), True, True, False, True, True,
    Outcome.REJECTED, ("SEMQ-1001", "why"), b"digest", 500, 1_760_000_000_000, 1_760_000_100_000, 9,
    GroupPlace(2, 3, str(HERE), "3.retailers"), str(HERE),
)  # fmt: skip
RECEIVED = Pending(
    9, HERE, 5, Address(1, "10009", "buyer"), SaveFwd.MUST, True, Arrival.REJ, LK1(2, 1, 44),
    AckStatus.AS_ACK, AckStatus.AS_ACK, AppStatus.DONE, 2, Pos(4, 2), "order", AppKey("bank", "invoice", "new", "8/15"),
    ("SEMQ-1001", "why"), b"digest", 500, 1_760_000_000_000, True, 9,
)  # fmt: skip

BARE_SENT = Outbound(77, Direction.RELAYED, HERE, Address(1, "10009"), SaveFwd.MUST, False, accepted_at=EPOCH_MS)
BARE_RECEIVED = Pending(9, HERE, 5, Address(1, "10009"), SaveFwd.MUST, False, Arrival.RECV, received_at=EPOCH_MS)


def loaded(table: Table, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return written values as they are loaded: times in milliseconds, statuses as plain numbers."""
    times = [isinstance(column.type, DateTime) for column in table.columns]
    read = (
        value // 1000 + EPOCH_MS if is_time and value is not None else value
        for is_time, value in zip(times, values, strict=True)
    )
    return tuple(int(value) if type(value).__module__ == "semq.umx_t.status" else value for value in read)


@pytest.mark.parametrize("row", [SENT, BARE_SENT, replace(BARE_SENT, priority=3, held=True)])
def test_an_outbound_row_is_loaded_as_it_was_written(row: Outbound) -> None:
    assert outbound_of(loaded(tables.tb_0031, outbound_values(row))) == row


@pytest.mark.parametrize("row", [RECEIVED, BARE_RECEIVED, replace(BARE_RECEIVED, proved=True, deliveries=4)])
def test_a_pending_row_is_loaded_as_it_was_written(row: Pending) -> None:
    assert pending_of(loaded(tables.tb_0030, pending_values(row))) == row


def test_the_rows_of_this_test_leave_no_field_at_its_default() -> None:
    for full, bare in ((SENT, BARE_SENT), (RECEIVED, BARE_RECEIVED)):
        at_default = {field.name for field in fields(full) if getattr(full, field.name) == getattr(bare, field.name)}
        assert at_default <= {"object_id", "bref", "lk0", "sid", "save_fwd", "has_payload"}


def test_a_change_is_packed_for_each_column_that_changes() -> None:
    assert len(pack_changes(SENT)) == len(pack_changes(BARE_SENT)) == len(CHANGES)
    assert {name for name, _ in CHANGES} <= {column.name for column in tables.tb_0031.columns}


def test_a_list_with_other_columns_than_the_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="tb_0031"):
        writer(read_table(OUTBOUND)[:-1], tables.tb_0031, {})


def test_a_field_without_columns_is_refused() -> None:
    with pytest.raises(KeyError, match="priority"):
        reader(read_table(PENDING)[:-1], Pending, {})
