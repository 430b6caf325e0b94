"""Rules of the protocol in rare situations: windows, attempts, refusals, markers, inquiries, floors."""

from hashlib import sha256

from msgspec.structs import replace
from msgspec.structs import replace as with_facts

from semq.store.rows import Event
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.locator import Pos
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import Outcome
from tests.flows.trio import HUB, SETTINGS, Trio, TrioWire, is_message, records


def test_a_copy_that_its_target_never_records_is_parked_until_the_next_login() -> None:
    trio = Trio(replace(SETTINGS, hub_attempts_max=3))
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.cut(trio.a)  # it would inquire about the copy, which would be sent once more
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    trio.connect(trio.b)
    trio.later(2000, step=5)
    assert sum(line.event is Event.PARKED for line in trio.hub_store.tables.ledger) == 1
    assert sum(line.event is Event.SENT for line in trio.hub_store.tables.ledger) == 3
    assert [row.parked for row in trio.hub_store.tables.outbound.values()] == [True]
    trio.cut(trio.b)
    trio.lose = lambda wire, frame: False
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.later(2)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


def test_a_parked_copy_gets_all_attempts_again_in_the_next_session_of_its_target() -> None:
    trio = Trio(replace(SETTINGS, hub_attempts_max=3))
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.cut(trio.a)
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    for sessions in (1, 2):
        trio.connect(trio.b)
        trio.later(2000, step=5)
        assert sum(line.event is Event.SENT for line in trio.hub_store.tables.ledger) == 3 * sessions
        trio.cut(trio.b)
    assert sum(line.event is Event.PARKED for line in trio.hub_store.tables.ledger) == 1


def test_the_cancellation_of_a_parked_copy_is_sent_in_the_same_session() -> None:
    trio = Trio(replace(SETTINGS, hub_attempts_max=3))
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    trio.connect(trio.b)
    trio.later(2000, step=5)
    assert [row.parked for row in trio.hub_store.tables.outbound.values()] == [True]
    trio.lose = lambda _, __: False
    errors: list[Exception] = []
    trio.a.engine.acts.cancel(trio.a.accepted[0].lk0, lambda: None, errors.append)
    trio.later(60, step=5)
    assert trio.is_clean()
    assert errors == []


def test_sends_of_ended_sessions_do_not_park_a_copy() -> None:
    trio = Trio(replace(SETTINGS, hub_attempts_max=3))
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    for _ in range(5):
        trio.connect(trio.b)
        trio.later(6, step=1)
        trio.cut(trio.b)
    assert sum(line.event is Event.SENT for line in trio.hub_store.tables.ledger) == 5
    assert not any(line.event is Event.PARKED for line in trio.hub_store.tables.ledger)


def test_no_message_leaves_beyond_the_window() -> None:
    trio = Trio(replace(SETTINGS, window=2), connected=False)
    trio.a.send(b"1", b"2", b"3")
    trio.settle()
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.settle()
    assert trio.a.up is not None
    assert [bytes(frame.body) for frame in trio.a.up.sent if isinstance(frame, Data)] == [b"1", b"2"]
    trio.lose = lambda wire, frame: False
    trio.later(60)
    assert trio.b.app.payloads == [b"1", b"2", b"3"]
    assert trio.is_clean()


def test_a_document_of_class_2_without_a_receipt_leaves_no_row_once_it_is_sent() -> None:
    trio = Trio(connected=False)
    trio.a.send(b"x", save_fwd=2, ack2=False)
    trio.settle()
    assert trio.a.rows["tb_0031"] == 1
    trio.lose = lambda wire, frame: True
    trio.connect(trio.a)
    trio.settle()
    assert trio.a.rows["tb_0031"] == 0


def test_a_refused_document_with_an_order_key_leaves_a_marker_at_its_position() -> None:
    """Rule N24: later documents with the order key need an entry at its position."""
    trio = Trio()
    trio.directory.forbidden.add(trio.b.address)
    trio.a.send(b"1", order_key="k")
    trio.settle()
    assert trio.b.lines(Event.CANCELLED) == 1
    (row,) = trio.a.store.tables.outbound.values()
    assert row.outcome is Outcome.REJECTED
    assert trio.a.store.tables.bodies[row.object_id].payload == b"1"
    trio.directory.forbidden.clear()
    trio.a.send(b"2", order_key="k")
    trio.settle()
    assert trio.b.app.payloads == [b"2"]


def test_a_refusal_of_a_later_attempt_does_not_end_an_arrived_document() -> None:
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.a.send(b"x")
    trio.settle()
    assert trio.b.app.payloads == [b"x"]
    trio.directory.forbidden.add(trio.b.address)
    trio.cut(trio.b)  # the document is sent again, and refused
    trio.lose = lambda wire, frame: False
    trio.settle()
    trio.connect(trio.b)
    trio.later(60)
    assert [event.outcome for event in trio.a.reported.events if event.outcome] == ["DELIVERED"]
    assert trio.is_clean()


def test_a_refusal_of_a_marker_is_only_noted() -> None:
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.a.up
    trio.a.send(b"x")
    trio.later(20)
    (row,) = trio.a.store.tables.outbound.values()
    trio.a.engine.acts.cancel(row.lk0, lambda: None, lambda error: None)
    trio.settle()
    (row,) = trio.a.store.tables.outbound.values()
    assert row.void
    refusal = Receipt(flag=HubFlag.REFUSED, ident=str(row.lk0), att=row.att, reason=("SEMQ-1203", "too large"))
    trio.a.receive(Packet(HUB, trio.a.address, Function.RECEIPTS, Primitive.INDICATION, [refusal]))
    trio.settle()
    (row,) = trio.a.store.tables.outbound.values()
    assert row.outcome is None
    assert trio.a.lines(Event.REFUSED) == 1


def test_a_document_of_class_1_is_given_up_after_four_inquiries_and_not_before() -> None:
    trio = Trio()
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    trio.a.send(b"x", save_fwd=1)
    asked = 0

    def count(wire: TrioWire, frame: Frame) -> bool:
        nonlocal asked
        asked += isinstance(frame, Packet) and frame.function is Function.INQUIRIES and wire is trio.a.up
        return is_message(frame) and wire is trio.b.down

    trio.lose = count
    while not trio.a.lines(Event.UNKNOWN):
        trio.later(1)
    assert asked == SETTINGS.give_up_after == 4


def test_another_document_under_a_known_name_is_recorded_as_a_mismatch_and_not_answered() -> None:
    trio = Trio()
    kept: list[Data] = []

    def keep(wire: TrioWire, frame: Frame) -> bool:
        if isinstance(frame, Data) and wire is trio.b.down:
            kept.append(frame)
        return wire is trio.b.up

    trio.lose = keep
    trio.a.send(b"x")
    trio.settle()
    assert trio.b.up is not None
    before = len(records(trio.b.up.sent))
    trio.b.receive(other_bytes(kept[0]))
    trio.settle()
    assert trio.b.lines(Event.MISMATCH) == 1
    assert len(records(trio.b.up.sent)) == before


def other_bytes(message: Data) -> Data:
    """Return a message of the same name with another payload."""
    return Data(with_facts(message.envelope, digest=sha256(b"y").digest()), b"y")


def test_floors_of_older_incarnations_are_closed_and_those_of_unknown_ones_empty() -> None:
    """Rule N25, break F6: documents with an order key must not wait for predecessors that were never sent."""
    trio = Trio()
    trio.a.send(b"1")
    trio.settle()
    first = trio.a.engine.core.inc
    trio.a.crash()
    trio.connect(trio.a)
    trio.settle()
    lk0 = trio.b.app.deliveries[0].envelope.lk0
    unknown = first + 7
    inquiries = [
        Inquiry(role=InquiryRole.R, ident=str(lk0), status=Answer.RECV, dest_ref_id=1),
        Inquiry(role=InquiryRole.R, ident=str(lk0._replace(object_id=99)), status=Answer.RECV, prev=f"{unknown:x}.3"),
    ]
    assert trio.a.up is not None
    before = len(trio.a.up.sent)
    packet = Packet(trio.b.address, trio.a.address, Function.INQUIRIES, Primitive.REQUEST, inquiries)
    trio.a.receive(packet)
    trio.settle()
    floors: dict[str, tuple[int, int | None]] = {}
    for record in records(trio.a.up.sent[before:]):
        if isinstance(record, Receipt) and record.ack_flag is AckFlag.END_TO_END:
            floors |= record.floors or {}
    assert floors[f"{first:x}"] == (1, 1)
    assert floors[f"{unknown:x}"] == (0, 0)


def in_order(message: Data, prev: Pos) -> Data:
    """Return the message with order key k and this predecessor."""
    attributes = with_facts(message.envelope.attributes, order_key="k")
    return Data(with_facts(message.envelope, attributes=attributes, prev=prev), message.body)


def test_a_document_after_a_never_sent_predecessor_is_delivered_after_an_inquiry() -> None:
    """Breaks F5 and F6: the restored sender does not know the incarnation of the predecessor."""
    trio = Trio()
    (message,) = trio.send_and_catch(b"x")
    trio.b.receive(in_order(message, Pos(message.envelope.lk0.inc + 7, 3)))
    trio.settle()
    assert trio.b.app.payloads == []
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]


def test_a_waiting_document_is_delivered_when_the_floor_passes_its_predecessor() -> None:
    trio = Trio()
    first, second = trio.send_and_catch(b"1", b"2")
    inc = first.envelope.lk0.inc
    trio.b.receive(in_order(second, Pos(inc, first.envelope.sid)))
    trio.settle()
    assert trio.b.app.payloads == []
    settled = Receipt(ack_flag=AckFlag.END_TO_END, ident=first.envelope.ident, floors={f"{inc:x}": (1, None)})
    packet = Packet(trio.a.address, trio.b.address, Function.RECEIPTS, Primitive.RESPONSE, [settled])
    trio.b.receive(packet)
    trio.settle()
    assert trio.b.app.payloads == [b"2"]


def test_only_documents_that_were_given_back_are_delivered_again() -> None:
    trio = Trio()
    trio.b.app.acks = False
    trio.a.send(b"1", b"2")
    trio.settle()
    first = trio.b.app.held.pop(0)
    trio.b.engine.answers.give_back([first.bref])
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2", b"1"]
    assert trio.b.app.deliveries[-1].redelivered


def test_the_receiver_of_a_document_of_a_lower_class_sends_packets_to_the_hub_only() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", save_fwd=2, ack2=False)
    trio.settle()
    trio.connect(trio.b)
    assert trio.b.up is not None
    trio.lose = lambda wire, frame: isinstance(frame, Packet) and wire is trio.b.down
    trio.later(60)
    targets = {frame.target for frame in trio.b.up.sent if isinstance(frame, Packet)}
    assert targets == {HUB}


def test_no_message_is_forwarded_past_a_stored_one() -> None:
    """Break B18: the target is online and has room before its stored copies are sent."""
    trio = Trio()
    trio.cut(trio.b)
    assert trio.a.up is not None
    assert trio.a.down is not None
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.a.up
    trio.a.send(b"1", b"2", b"3")
    trio.settle()
    first, second, third = [frame for frame in trio.a.up.sent if isinstance(frame, Data)]
    trio.hub.receive(trio.a.down, [first])
    trio.connect(trio.b)  # while the store writes the first document
    assert trio.b.down is not None
    trio.hub.receive(trio.a.down, [second])
    trio.b.down.room = 0
    trio.hub_store.run()
    trio.b.down.room = 1000
    trio.hub.receive(trio.a.down, [third])
    trio.hub_store.run()
    assert not any(is_message(frame) for frame in trio.b.down.sent)
    assert trio.held == 3
    trio.hub.send_waiting(trio.b.down)
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2", b"3"]


def test_a_marker_that_replaces_a_copy_counts_as_a_new_attempt() -> None:
    """Otherwise an old answer NOT, about the payload, would cause the marker to be sent repeatedly."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    (before,) = [row.att for row in trio.hub_store.tables.outbound.values()]
    (row,) = trio.a.store.tables.outbound.values()
    trio.a.engine.acts.cancel(row.lk0, lambda: None, lambda error: None)
    trio.settle()
    (copy,) = trio.hub_store.tables.outbound.values()
    assert (copy.void, copy.att) == (True, before + 1)


def test_a_hub_that_starts_with_a_backlog_knows_the_copies_of_each_pair_before_it_gets_a_frame() -> None:
    """``waiting_max`` of the agreements counts them."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"1", b"2")
    trio.settle()
    trio.crash_hub()
    waiting, pair = trio.hub.custody.waiting, (str(trio.a.address), str(trio.b.address))
    assert (waiting(*pair), waiting(*reversed(pair))) == (2, 0)
    trio.connect(trio.a)
    trio.a.send(b"3")
    trio.settle()
    assert waiting(*pair) == 3
    trio.connect(trio.b)
    trio.later(60)
    assert waiting(*pair) == 0
