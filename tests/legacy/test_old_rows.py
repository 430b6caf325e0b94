"""Rows of an older SEMQ: the task of each row, or the reason why it is refused."""

from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.legacy.mapping import OUTBOUND, PENDING, STATUSES, TO_DO, OldTable, read_mapping
from semq.legacy.old_rows import OldRow, OldRowRefused, Reason, RowTask, read_payload, read_row
from semq.umx_t.address import Address
from tests.legacy import sample

OWN = Address(1, "10008")
TABLES = {table.kind: table for table in read_mapping(None).tables}


def meanings(table: OldTable, row: dict[str, Any]) -> dict[str, Any]:
    return {meaning: row[name] for meaning, name in table.columns.items() if name in row and meaning != "payload"}


def read(kind: str, row: dict[str, Any]) -> OldRow:
    return read_row(TABLES[kind], meanings(TABLES[kind], row), OWN)


@pytest.mark.parametrize(
    ("status", "changes", "task"),
    [
        (sample.INIT, {}, RowTask.SEND),
        ("SS_INIT", {}, RowTask.SEND),
        (sample.SENT, {}, RowTask.ASK),
        (sample.ACK_FWD, {}, RowTask.ASK),
        (sample.ACK, {}, RowTask.ASK),
        (sample.ACK, {"ack2": 0}, RowTask.FINISHED),
        (sample.ACK2, {}, RowTask.FINISHED),
        (sample.ACK2, {"session_key": "k", "source": "77"}, RowTask.FINISHED),
    ],
)
def test_the_status_decides_the_task(status: Any, changes: dict[str, Any], task: RowTask) -> None:
    assert read(OUTBOUND, sample.outbound(7, status, **changes)).task is task


def test_a_row_becomes_a_document_with_its_attributes() -> None:
    row = read(OUTBOUND, sample.outbound(7, target="1.56001", target_user="buyer", save_fwd=2, ack2=0, reliable=0))
    assert (row.target, str(row.app_key), row.save_fwd) == ("1.56001/buyer", "trade/order//S0007", 2)
    assert (row.ack2, row.reliable, row.fixed, row.encrypt) == (False, False, True, False)
    assert (row.lk0, row.token) == ("1.10008.1.1.0.7", "import:tb_0031:1.10008.1.1.0.7")


def test_a_row_of_the_hub_has_the_identity_of_its_sender() -> None:
    at_hub = sample.outbound(900, source="hub", lk0_node_id="10008", lk0_object_id=7)
    assert read(OUTBOUND, at_hub).token == read(OUTBOUND, sample.outbound(7)).token


@pytest.mark.parametrize(
    ("kind", "row", "reason"),
    [
        (OUTBOUND, sample.outbound(7) | {"object_id": "7; DROP TABLE x"}, Reason.BAD_ID),
        (OUTBOUND, sample.outbound(7) | {"object_id": -7}, Reason.BAD_ID),
        (OUTBOUND, sample.outbound(7, 17), Reason.BAD_STATUS),
        (OUTBOUND, sample.outbound(7, ss_status=None), Reason.BAD_STATUS),
        (OUTBOUND, sample.outbound(7, target="五六"), Reason.BAD_TARGET),
        (OUTBOUND, sample.outbound(7, target=None), Reason.BAD_TARGET),
        (OUTBOUND, sample.outbound(7, source="77001"), Reason.OTHER_SOURCE),
        (OUTBOUND, sample.outbound(7, source="../etc"), Reason.BAD_SOURCE),
        (OUTBOUND, sample.outbound(7, semq_id="x"), Reason.BAD_SOURCE),
        (OUTBOUND, sample.outbound(7, semq_id=10**15), Reason.BAD_SOURCE),
        (OUTBOUND, sample.outbound(7, save_fwd=4), Reason.BAD_ATTRIBUTE),
        (OUTBOUND, sample.outbound(7, ack2="perhaps"), Reason.BAD_ATTRIBUTE),
        (OUTBOUND, sample.outbound(7, app_key="\x1b[2J"), Reason.BAD_APP_KEY),
        (OUTBOUND, sample.outbound(7, app_key="k" * 200), Reason.BAD_APP_KEY),
        (OUTBOUND, sample.outbound(7, encrypt=1, session_key="k"), Reason.SEALED),
        (PENDING, sample.pending(1, 7) | {"lk0_node_id": None}, Reason.BAD_SOURCE),
        (PENDING, sample.pending(1, 7) | {"lk0_object_id": None}, Reason.BAD_ID),
        (TO_DO, sample.to_do(1, to_user=None), Reason.NO_MESSAGE),
        (TO_DO, sample.to_do(1, from_user=""), Reason.NO_MESSAGE),
        (TO_DO, sample.to_do(1, to_user="a b"), Reason.NO_MESSAGE),
    ],
)
def test_a_row_that_cannot_be_imported_is_refused_with_a_reason(kind: str, row: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(OldRowRefused) as caught:
        read(kind, row)
    assert caught.value.reason is reason


def test_a_received_row_is_unfinished_until_hub_and_sender_have_its_acknowledgement() -> None:
    assert read(PENDING, sample.pending(1, 7)).task is RowTask.NOTE
    assert read(PENDING, sample.pending(1, 7, p_ack=1)).task is RowTask.NOTE
    assert read(PENDING, sample.pending(1, 7, p_ack=1, s_ack=1)).task is RowTask.FINISHED
    assert read(PENDING, sample.pending(1, 7)).lk0 == "1.10008.1.1.0.7"


def test_to_do_rows_become_messages_between_users() -> None:
    row = read(TO_DO, sample.to_do(3))
    assert (row.target, row.sender, row.token) == ("1.10008/bob", "alice", "import:tb_0032:3")
    assert read(TO_DO, sample.to_do(3, 1)).task is RowTask.FINISHED


@pytest.mark.parametrize(
    ("value", "encoding", "body"),
    [
        (b"x", "base64", b"x"),
        ("é", "utf-8", "é".encode()),
        ("eA==", "base64", b"x"),
        ("78", "hex", b"x"),
        ("", "hex", b""),
    ],
)
def test_payloads_are_bytes_or_texts(value: Any, encoding: str, body: bytes) -> None:
    assert read_payload(value, encoding) == body


@pytest.mark.parametrize(
    ("value", "encoding"),
    [
        (None, "utf-8"),
        ("x", "base64"),
        ("x", "hex"),
        ("\udc80", "utf-8"),
        *((value, "utf-8") for value in (12345, 3.5, True, [1, 2], {"a": 1}, Decimal(7), date(2026, 1, 1))),
    ],
)
def test_a_payload_that_cannot_be_read_is_refused(value: Any, encoding: str) -> None:
    with pytest.raises(OldRowRefused):
        read_payload(value, encoding)


VALUES = st.none() | st.text(max_size=20) | st.integers() | st.binary(max_size=9) | st.booleans() | st.floats()


@given(st.sampled_from(sorted(TABLES)), st.data())
def test_any_values_are_read_or_refused(kind: str, data: st.DataObject) -> None:
    table = TABLES[kind]
    row = {meaning: data.draw(VALUES, meaning) for meaning in table.columns}
    with suppress(OldRowRefused):
        old_row = read_row(table, row, OWN)
        assert len(old_row.token) <= 200
        assert set(old_row.status.split("/")) <= STATUSES[kind]
