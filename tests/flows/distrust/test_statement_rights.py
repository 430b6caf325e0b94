"""Rights to statements: a statement of the wrong node, or about the wrong copy, attempt or inquiry, has no effect.

Each statement would change its row, or put it in doubt, if the right node had made it about the right copy. It is a
violation if it must be false.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from semq.store.rows import Event, Outbound, Pending
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.locator import LK1
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import AckStatus
from tests.flows.trio import HUB, Trio, forwarded, is_message

A, B, C = Address(1, "10008"), Address(1, "56001"), Address(1, "88001")
OTHER_DIGEST = "ab" * 32
OTHER_COPY = (1, 1, 999)
MakePacket = Callable[[Trio, Outbound], Packet]


def receipt(source: Address, **facts: Any) -> MakePacket:
    """Return a function that makes a receipt to A about its row."""

    def make_packet(trio: Trio, row: Outbound) -> Packet:
        defaults: dict[str, Any] = {"ident": str(row.lk0), "att": row.att}
        return Packet(source, A, Function.RECEIPTS, Primitive.INDICATION, [Receipt(**defaults | facts)])

    return make_packet


def answer(source: Address, answered: Answer, inquiries_ago: int = 0, **facts: Any) -> MakePacket:
    """Return a function that makes an answer to A's last inquiry about its row, or to an earlier one."""

    def make_packet(trio: Trio, row: Outbound) -> Packet:
        nonce = trio.a.engine.sender.nonces[row.object_id] - inquiries_ago
        copy = (row.custodian.semq_id, row.custodian.semq_db_id, row.custodian.object_id) if row.custodian else None
        defaults: dict[str, Any] = {
            "role": InquiryRole.S,
            "ident": str(row.lk0),
            "nonce": nonce,
            "lk1": copy,
            "answer": answered,
        }
        record = Inquiry(**(defaults | facts))
        return Packet(source, A, Function.INQUIRIES, Primitive.CONFIRMATION, [record])

    return make_packet


def inquiry_r(source: Address, **facts: Any) -> MakePacket:
    """Return a function that makes an inquiry R to A: a receiver states that it has A's message."""
    return lambda trio, row: Packet(
        source, A, Function.INQUIRIES, Primitive.REQUEST,
        [Inquiry(role=InquiryRole.R, ident=str(row.lk0), status=Answer.RECV, **facts)],
    )  # fmt: skip


def sent() -> Trio:
    """Return a trio in which A's row is SS_SENT, because all frames of A are lost."""
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.a.up
    trio.a.send(b"x")
    trio.later(60)
    return trio


def stored(ack2: bool = True) -> Trio:
    """Return a trio in which A's row is SS_ACK: B is offline, the hub stores a copy."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", ack2=ack2)
    trio.later(60)
    return trio


def stored_without_payload() -> Trio:
    """Like ``stored``, but A has deleted the payload."""
    return stored(ack2=False)


RECV: dict[str, Any] = {"ack_flag": AckFlag.END_TO_END, "status": Answer.RECV}
LIE, HINT = 1, 0  # violations in the ledger


@pytest.mark.parametrize(
    ("scene", "make_packet", "violations"),
    [
        pytest.param(forwarded, receipt(C, **RECV), LIE, id="Ack2 of another node"),
        pytest.param(forwarded, receipt(B, **RECV, digest=OTHER_DIGEST), LIE, id="Ack2 for other bytes"),
        pytest.param(forwarded, receipt(B, flag=HubFlag.STORED, lk1=OTHER_COPY), LIE, id="Ack-Save of a node"),
        pytest.param(forwarded, receipt(B, flag=HubFlag.FORWARD_FAILED), LIE, id="flag 4 of a node"),
        pytest.param(sent, receipt(B, flag=HubFlag.REFUSED), LIE, id="a refusal of a node"),
        pytest.param(sent, receipt(HUB, flag=HubFlag.FORWARDED, att=7), HINT, id="Ack-Fwd of another attempt"),
        pytest.param(forwarded, receipt(HUB, flag=HubFlag.FORWARD_FAILED, att=7), HINT, id="flag 4 of another attempt"),
        pytest.param(sent, receipt(HUB, flag=HubFlag.REFUSED, att=7), HINT, id="a refusal of another attempt"),
        pytest.param(forwarded, answer(C, Answer.RECV), LIE, id="RECV of another node"),
        pytest.param(forwarded, answer(B, Answer.RECV, digest=OTHER_DIGEST), LIE, id="RECV for other bytes"),
        pytest.param(forwarded, answer(C, Answer.NOT), LIE, id="NOT of another node"),
        pytest.param(forwarded, answer(B, Answer.NOT, inquiries_ago=1), HINT, id="NOT to an older inquiry"),
        pytest.param(forwarded, answer(B, Answer.OFFLINE), LIE, id="OFFLINE of a node"),
        pytest.param(forwarded, answer(HUB, Answer.OFFLINE, inquiries_ago=1), HINT, id="OFFLINE to an older inquiry"),
        pytest.param(forwarded, answer(B, Answer.CUSTODY, lk1=OTHER_COPY), LIE, id="CUSTODY of a node"),
        pytest.param(stored, answer(B, Answer.GONE), LIE, id="GONE of a node"),
        pytest.param(stored, answer(HUB, Answer.GONE, lk1=OTHER_COPY), HINT, id="GONE of another copy"),
        pytest.param(stored, answer(HUB, Answer.GONE, inquiries_ago=1), HINT, id="GONE to an older inquiry"),
        pytest.param(stored, answer(HUB, Answer.UNAVAIL), HINT, id="UNAVAIL for the first time"),
        pytest.param(forwarded, inquiry_r(C), LIE, id="Inquiry R of another node"),
        pytest.param(forwarded, inquiry_r(B, digest=OTHER_DIGEST), LIE, id="Inquiry R for other bytes"),
    ],
)
def test_a_statement_without_the_right_to_it_changes_no_row_of_a_sender(
    scene: Callable[[], Trio], make_packet: MakePacket, violations: int
) -> None:
    trio = scene()
    (row,) = trio.a.store.tables.outbound.values()
    before, lines = str(row), trio.a.lines(Event.VIOLATION)
    trio.a.receive(make_packet(trio, row))
    assert [str(kept) for kept in trio.a.store.tables.outbound.values()] == [before]
    assert not trio.a.engine.rows.doubts
    assert trio.a.lines(Event.VIOLATION) - lines == violations


def test_a_row_of_another_incarnation_with_the_same_number_is_not_affected() -> None:
    trio = forwarded()
    (row,) = trio.a.store.tables.outbound.values()
    other = row.lk0._replace(inc=row.lk0.inc + 1)
    trio.a.receive(receipt(B, **RECV | {"ident": str(other)})(trio, row))
    assert [kept.outcome for kept in trio.a.store.tables.outbound.values()] == [None]


def test_a_sender_without_the_payload_keeps_a_custodian_that_is_unavailable() -> None:
    """A cannot send the message again (unlike rule N27), and must not lose its custodian."""
    trio = stored_without_payload()
    (row,) = trio.a.store.tables.outbound.values()
    for _ in range(2):
        trio.a.receive(answer(HUB, Answer.UNAVAIL)(trio, row))
        trio.time.now += trio.settings.custody_silence_s + 1
    assert not trio.a.engine.rows.doubts


def test_custody_of_the_payload_does_not_change_the_row_of_a_marker() -> None:
    """An Ack-Save for the payload of a cancelled document arrives late."""
    trio = sent()
    (row,) = trio.a.store.tables.outbound.values()
    trio.a.engine.acts.cancel(row.lk0, lambda: None, lambda error: None)
    trio.settle()
    (row,) = trio.a.store.tables.outbound.values()
    assert row.void
    trio.a.receive(receipt(HUB, flag=HubFlag.STORED, lk1=OTHER_COPY)(trio, row))
    assert [kept.custodian for kept in trio.a.store.tables.outbound.values()] == [None]


# --------------------------------------------------------------------------------------------------------- receiver


def owing() -> tuple[Trio, Pending]:
    """Return a trio, and B's row of a copy from the hub; B's acknowledgements are lost."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.connect(trio.b)
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.settle()
    (row,) = trio.b.store.tables.pending.values()
    return trio, row


def reack(row: Pending, flag: AckFlag, **facts: Any) -> Receipt:
    """Return the record of a ReAck2 or ReAck (``flag``) about B's row."""
    assert row.lk1 is not None
    defaults: dict[str, Any] = {
        "ident": str(row.lk0), "dest_ref_id": row.bref, "ack_flag": flag,
        "src_semq_id": row.lk1.semq_id, "src_semq_db_id": row.lk1.semq_db_id, "src_ref_id": row.lk1.object_id,
    }  # fmt: skip
    return Receipt(**defaults | facts)


@pytest.mark.parametrize(
    ("source", "flag", "facts", "violations"),
    [
        pytest.param(C, AckFlag.END_TO_END, {}, LIE, id="ReAck2 of another node"),
        pytest.param(A, AckFlag.TRANSPORT, {}, LIE, id="ReAck of a node"),
        pytest.param(HUB, AckFlag.TRANSPORT, {"src_ref_id": 999}, HINT, id="ReAck of another copy"),
        pytest.param(HUB, AckFlag.TRANSPORT, {"src_semq_db_id": 9}, HINT, id="ReAck of another store's copy"),
    ],
)
def test_a_statement_without_the_right_to_it_changes_no_row_of_a_receiver(
    source: Address, flag: AckFlag, facts: dict[str, Any], violations: int
) -> None:
    trio, row = owing()
    incs = {f"{row.lk0.inc:x}": (row.sid + 1, None)} if flag is AckFlag.END_TO_END else None
    packet = Packet(source, B, Function.RECEIPTS, Primitive.RESPONSE, [reack(row, flag, floors=incs, **facts)])
    lines = trio.b.lines(Event.VIOLATION)
    trio.b.receive(packet)
    (row,) = trio.b.store.tables.pending.values()
    assert (row.p_ack_status, row.s_ack_status) == (AckStatus.AS_INIT, AckStatus.AS_INIT)
    assert all(stream.floor == 0 for stream in trio.b.store.tables.in_streams.values())
    assert trio.b.lines(Event.VIOLATION) - lines == violations


def test_a_reack2_notes_only_the_message_that_it_names() -> None:
    trio, row = owing()
    other = row.lk0._replace(object_id=row.lk0.object_id + 1)
    packet = Packet(A, B, Function.RECEIPTS, Primitive.RESPONSE, [reack(row, AckFlag.END_TO_END, ident=str(other))])
    trio.b.receive(packet)
    assert [kept.s_ack_status for kept in trio.b.store.tables.pending.values()] == [AckStatus.AS_INIT]


@pytest.mark.parametrize(("source", "role"), [(C, InquiryRole.S), (A, InquiryRole.P)])
def test_only_sender_and_hub_get_information_about_a_message(source: Address, role: InquiryRole) -> None:
    trio, row = owing()
    inquiry = Inquiry(role=role, ident=str(row.lk0), sid=row.sid, nonce=1)
    assert trio.b.up is not None
    sent_before, lines = len(trio.b.up.sent), trio.b.lines(Event.VIOLATION)
    trio.b.receive(Packet(source, B, Function.INQUIRIES, Primitive.REQUEST, [inquiry]))
    trio.b.engine.flush()
    assert len(trio.b.up.sent) == sent_before
    assert trio.b.lines(Event.VIOLATION) - lines == LIE


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda e: {"target": C}, id="addressed to another node"),
        pytest.param(lambda e: {"lk0": e.lk0._replace(id="56001")}, id="in the name of the receiver itself"),
        pytest.param(
            lambda e: {"digest": bytes.fromhex(OTHER_DIGEST)}, id="with another digest than that of its bytes"
        ),
        pytest.param(lambda e: {"sid": 1 << 40}, id="beyond the window"),
        pytest.param(lambda e: {"floor": e.sid + 1}, id="with a floor above its own position"),
    ],
)
def test_a_message_with_a_false_envelope_is_not_recorded(changed: Callable[[Any], dict[str, Any]]) -> None:
    trio = Trio()
    (message,) = trio.send_and_catch(b"x")
    lying = Data(replace(message.envelope, **changed(message.envelope)), message.body)
    trio.b.receive(lying)
    assert not trio.b.store.tables.pending
    assert all(stream.floor == 0 for stream in trio.b.store.tables.in_streams.values())
    assert trio.b.lines(Event.VIOLATION) + trio.b.lines(Event.MISMATCH) == LIE
    trio.b.receive(message)
    assert [row.lk0 for row in trio.b.store.tables.pending.values()] == [message.envelope.lk0]


# -------------------------------------------------------------------------------------------------------------- hub


def held() -> tuple[Trio, Outbound]:
    """Return a trio, and the hub's row of a copy that was lost on the way to B."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: wire is trio.b.down
    trio.connect(trio.b)
    trio.settle()
    (row,) = trio.hub_store.tables.outbound.values()
    return trio, row


def ack(row: Outbound, **facts: Any) -> Packet:
    defaults: dict[str, Any] = {"src_ref_id": row.object_id, "ack_flag": AckFlag.TRANSPORT, "ident": str(row.lk0)}
    record = Receipt(**(defaults | facts))
    return Packet(B, HUB, Function.RECEIPTS, Primitive.INDICATION, [record])


def answer_packet(row: Outbound, answer: Answer, **facts: Any) -> Packet:
    defaults: dict[str, Any] = {
        "role": InquiryRole.P,
        "ident": str(row.lk0),
        "nonce": row.att,
        "lk1": (1, 1, row.object_id),
        "answer": answer,
    }
    return Packet(B, HUB, Function.INQUIRIES, Primitive.CONFIRMATION, [Inquiry(**defaults | facts)])


@pytest.mark.parametrize(
    ("source", "make_packet"),
    [
        pytest.param(A, lambda row: ack(row), id="Ack of another node"),
        pytest.param(B, lambda row: ack(row, ident=f"{row.lk0}7"), id="Ack for another message"),
        pytest.param(B, lambda row: ack(row, src_semq_db_id=9), id="Ack for another store's copy"),
        pytest.param(A, lambda row: answer_packet(row, Answer.RECV), id="RECV of another node"),
        pytest.param(B, lambda row: answer_packet(row, Answer.RECV, ident=f"{row.lk0}7"), id="RECV of another message"),
        pytest.param(B, lambda row: answer_packet(row, Answer.NOT, nonce=row.att + 1), id="NOT to another attempt"),
        pytest.param(A, lambda row: answer_packet(row, Answer.NOT), id="NOT of another node"),
    ],
)
def test_a_statement_without_the_right_to_it_changes_no_copy_of_a_hub(
    source: Address, make_packet: Callable[[Outbound], Packet]
) -> None:
    trio, row = held()
    before = str(row)
    link = trio.a.down if source == A else trio.b.down
    assert link is not None
    trio.hub.receive(link, [with_source(make_packet(row), source)])
    trio.hub_store.run()
    assert [str(kept) for kept in trio.hub_store.tables.outbound.values()] == [before]


@pytest.mark.parametrize(
    ("source", "ident", "fault"),
    [
        pytest.param(A, "", "does not come from the node to which the message is addressed.", id="another node"),
        pytest.param(B, "7", "names another message than the row.", id="another message"),
    ],
)
def test_a_violation_at_the_hub_states_its_fault(source: Address, ident: str, fault: str) -> None:
    trio, row = held()
    link = trio.a.down if source == A else trio.b.down
    assert link is not None
    packets = [ack(row, ident=f"{row.lk0}{ident}"), answer_packet(row, Answer.RECV, ident=f"{row.lk0}{ident}")]
    trio.hub.receive(link, [with_source(packet, source) for packet in packets])
    trio.hub_store.run()
    texts = [line.detail for line in trio.hub_store.tables.ledger if line.event is Event.VIOLATION]
    assert [fault in text for text in texts] == [True, True]


def with_source(packet: Packet, source: Address) -> Packet:
    return Packet(source, packet.target, packet.function, packet.primitive, packet.records)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda e: {"source": B}, id="in another node's name"),
        pytest.param(lambda e: {"lk0": e.lk0._replace(id="56001")}, id="of another node"),
        pytest.param(lambda e: {"lk1": LK1(1, 1, 5)}, id="as a copy of the hub's"),
    ],
)
def test_a_hub_forwards_only_messages_of_the_sending_node(changed: Callable[[Any], dict[str, Any]]) -> None:
    trio = Trio()
    (message,) = trio.send_and_catch(b"x")
    assert trio.a.down is not None
    assert trio.b.down is not None
    before = len(trio.b.down.sent)
    trio.hub.receive(trio.a.down, [Data(replace(message.envelope, **changed(message.envelope)), message.body)])
    trio.later(1)
    assert not [frame for frame in trio.b.down.sent[before:] if is_message(frame)]
    assert trio.held == 0
    assert any(line.event is Event.VIOLATION for line in trio.hub_store.tables.ledger)
