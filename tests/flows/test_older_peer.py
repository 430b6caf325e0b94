"""A peer of an older version, which uses only ``result`` in its answers (PROTOCOL.md section 17)."""

from typing import Any

import pytest
from msgspec.structs import replace

from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import Inquiry, InquiryRole
from semq.umx_t.status import Outcome
from tests.flows.trio import Trio, TrioWire, forwarded

A, B = Address(1, "10008"), Address(1, "56001")


def receive_answer(trio: Trio, **facts: Any) -> None:
    """Let A receive B's answer to its last inquiry."""
    (row,) = trio.a.store.tables.outbound.values()
    record = Inquiry(role=InquiryRole.S, ident=str(row.lk0), nonce=trio.a.engine.sender.nonces[row.object_id], **facts)
    trio.a.receive(Packet(B, A, Function.INQUIRIES, Primitive.CONFIRMATION, [record]))


def test_the_result_received_ends_the_row() -> None:
    trio = forwarded()
    receive_answer(trio, result=1)
    assert trio.a.reported.kinds[-1] == "delivered"


def test_the_result_not_received_sends_the_message_again_without_a_duplicate() -> None:
    trio = forwarded()
    (row,) = trio.a.store.tables.outbound.values()
    attempts = row.att
    receive_answer(trio, result=0)
    trio.later(1)
    (row,) = trio.a.store.tables.outbound.values()
    assert row.att == attempts + 1
    trio.lose = lambda wire, frame: False
    trio.later(120)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.kinds[-1] == "delivered"
    assert trio.is_clean()


@pytest.mark.parametrize("result", [None, 7])
def test_an_answer_without_a_known_result_changes_nothing(result: int | None) -> None:
    trio = forwarded()
    before = [str(row) for row in trio.a.store.tables.outbound.values()]
    receive_answer(trio, result=result)
    assert [str(row) for row in trio.a.store.tables.outbound.values()] == before


def test_a_document_to_a_receiver_whose_answers_have_only_a_result_ends_by_inquiry() -> None:
    """B's answers have no field ``answer``, and its Ack2 are lost."""
    trio = Trio()

    def make_older(wire: TrioWire, frame: Frame) -> bool:
        if wire is not trio.b.up or not isinstance(frame, Packet):
            return False
        if frame.function is Function.RECEIPTS:
            return True
        if frame.primitive is Primitive.CONFIRMATION:
            assert isinstance(frame.records, list)
            frame.records[:] = [replace(record, answer=None) for record in frame.records]
        return frame.primitive is Primitive.REQUEST  # an older peer sends no inquiries

    trio.lose = make_older
    trio.a.send(b"x")
    trio.later(120)
    assert trio.a.reported.kinds[-1] == "delivered"
    assert [row.outcome for row in trio.a.store.tables.outbound.values()] in ([], [Outcome.DELIVERED])
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.lines(Event.VIOLATION) == 0
