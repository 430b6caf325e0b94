"""Documents from A to B: forwarded, stored, lost and sent again, refused, cancelled, held, parked, in order.

Breaks are those of PROTOCOL.md section 8.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from semq.engine.errors import DocumentTooLarge, QuotaReached, TokenReused, UnknownTarget
from semq.store.rows import Event
from semq.umx_t.envelope import Data, Frame, Function, Packet
from semq.umx_t.records import AckFlag, HubFlag
from semq.umx_t.status import AppStatus, Outcome, SendStatus
from tests.flows.trio import SETTINGS, Trio, TrioWire, is_message, records


def packet_lost(function: Function, count: int = 10**9) -> Callable[[TrioWire, Frame], bool]:
    """Return a callback for ``Trio.lose`` that drops the first ``count`` packets with the code ``function``."""
    remaining = [count]

    def lose(wire: TrioWire, frame: Frame) -> bool:
        if isinstance(frame, Packet) and frame.function is function and remaining[0]:
            remaining[0] -= 1
            return True
        return False

    return lose


def test_an_online_target_gets_a_document_immediately_and_its_sender_the_receipt() -> None:
    trio = Trio()
    trio.a.send(b"order", key="S0001")
    trio.settle()
    assert trio.b.app.payloads == [b"order"]
    assert trio.a.reported.kinds == ["sent", "delivered"]
    assert {str(event.app_key) for event in trio.a.reported.events} == {"trade/order//S0001"}
    assert trio.held == 0
    trio.later(1)
    assert trio.is_clean()


def test_an_offline_target_gets_documents_from_the_hub_when_it_logs_in() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"1", b"2", b"3")
    trio.settle()
    assert trio.held == 3
    assert [row.ss_status for row in trio.a.store.tables.outbound.values()] == [SendStatus.SS_ACK] * 3
    assert trio.a.reported.kinds.count("stored") == 3
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2", b"3"]
    assert all(delivery.envelope.lk1 is not None for delivery in trio.b.app.deliveries)
    assert trio.b.app.deliveries[0].envelope.source == trio.hub.core.address  # transport source
    assert trio.b.app.deliveries[0].envelope.lk0.node == trio.a.address  # application source
    trio.later(2)
    assert trio.is_clean()


def test_documents_wait_at_their_sender_while_its_link_is_down() -> None:
    trio = Trio()
    trio.cut(trio.a)
    trio.a.send(b"1", b"2", order_key="k")
    trio.settle()
    assert [row.ss_status for row in trio.a.store.tables.outbound.values()] == [SendStatus.SS_INIT] * 2
    trio.connect(trio.a)
    trio.later(1)
    assert trio.b.app.payloads == [b"1", b"2"]
    assert trio.is_clean()


def test_a_stored_backlog_is_never_overtaken() -> None:
    """Break B18."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(*(b"%d" % n for n in range(30)))
    trio.settle()
    trio.connect(trio.b)
    trio.a.send(*(b"%d" % n for n in range(30, 60)))
    trio.later(3)
    assert trio.b.app.payloads == [b"%d" % n for n in range(60)]
    assert trio.is_clean()


@pytest.mark.parametrize("ack2", [True, False])
def test_a_lost_ack2_is_found_by_inquiry_and_nothing_is_delivered_twice(ack2: bool) -> None:
    """Break B01."""
    trio = Trio()
    trio.lose = packet_lost(Function.RECEIPTS)
    trio.a.send(b"x", ack2=ack2)
    trio.later(5)
    assert trio.a.rows["tb_0031"] == 1
    trio.lose = lambda wire, frame: False
    trio.later(120)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()
    assert trio.a.reported.kinds[-1] == "delivered"


def test_a_lost_message_is_sent_again_with_the_same_lk0() -> None:
    trio = Trio()
    seen: list[Data] = []

    def lose_first(wire: TrioWire, frame: Frame) -> bool:
        if isinstance(frame, Data):
            seen.append(frame)
        return is_message(frame) and len(seen) == 1

    trio.lose = lose_first
    trio.a.send(b"x")
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert {frame.envelope.lk0 for frame in seen} == {seen[0].envelope.lk0}
    assert trio.is_clean()


def test_a_lost_ack_save_is_found_by_inquiry() -> None:
    """Break B03: an answer of the hub is never a receipt."""
    trio = Trio()
    trio.cut(trio.b)
    trio.lose = packet_lost(Function.RECEIPTS, 1)
    trio.a.send(b"x")
    trio.later(40)
    (row,) = trio.a.store.tables.outbound.values()
    assert row.ss_status is SendStatus.SS_ACK
    assert row.custodian is not None
    trio.connect(trio.b)
    trio.later(40)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


def test_documents_forwarded_in_a_session_that_ends_are_reported_and_stored() -> None:
    """Break B17, rule N27b."""
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.b.down
    trio.a.send(b"x")
    trio.settle()
    trio.cut(trio.b)
    trio.lose = lambda wire, frame: False
    trio.settle()
    assert trio.held == 1
    trio.connect(trio.b)
    trio.later(1)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


@pytest.mark.parametrize("crashed", ["a", "b", "hub"])
def test_a_crash_of_any_node_loses_nothing_and_every_repeat_is_marked(crashed: str) -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"1", b"2")
    trio.settle()
    trio.connect(trio.b)
    if crashed == "hub":
        trio.crash_hub()
        trio.connect(trio.a)
    else:
        getattr(trio, crashed).crash()
    for node in trio.nodes:
        if node.up is None:
            trio.connect(node)
    trio.a.send(b"3")
    trio.later(90)
    assert sorted(set(trio.b.app.payloads)) == [b"1", b"2", b"3"]
    assert all(d.redelivered for n, d in enumerate(trio.b.app.deliveries) if d.payload in trio.b.app.payloads[:n])
    assert trio.b.lines(Event.RECEIVED) == 3
    assert trio.is_clean()


def test_a_document_is_redelivered_with_the_flag_when_the_node_crashes_before_the_ack() -> None:
    """Break B07."""
    trio = Trio()
    trio.b.app.acks = False
    trio.a.send(b"x")
    trio.later(30)
    assert trio.a.rows["tb_0031"] == 0  # the message is settled
    trio.b.crash()
    trio.b.app.acks = True
    trio.connect(trio.b)
    trio.later(1)
    assert [delivery.redelivered for delivery in trio.b.app.deliveries] == [False, True]
    assert trio.is_clean()


def test_a_token_makes_a_repeat_safe_and_other_bytes_are_refused() -> None:
    trio = Trio()
    trio.a.send(b"x", token="t")
    trio.settle()
    trio.a.send(b"x", token="t")
    trio.a.send(b"y", token="t")
    trio.later(1)
    first, again = trio.a.accepted
    assert again.lk0 == first.lk0
    assert again.repeated
    assert isinstance(trio.a.refused[0], TokenReused)
    assert trio.b.app.payloads == [b"x"]


def test_an_unknown_target_is_refused_at_submit_after_the_directory_has_arrived() -> None:
    trio = Trio()
    trio.a.send(b"x", to="77777")
    trio.settle()
    assert isinstance(trio.a.refused[0], UnknownTarget)
    assert trio.a.rows["tb_0031"] == 0


def test_an_unknown_target_is_refused_by_the_hub_if_the_sender_has_no_directory_yet() -> None:
    trio = Trio(connected=False)
    trio.connect(trio.b)
    trio.a.send(b"x", to="77777")
    trio.settle()
    trio.connect(trio.a)
    trio.later(1)
    (row,) = trio.a.store.tables.outbound.values()
    assert row.outcome is Outcome.REJECTED
    assert row.reason is not None
    assert row.reason[0] == UnknownTarget.code
    assert trio.a.store.tables.bodies[row.object_id].payload == b"x"
    assert trio.a.reported.kinds[-1] == "failed"


def test_a_partner_s_quota_refuses_new_documents_and_drops_nothing() -> None:
    trio = Trio(replace(SETTINGS, quota_rows_per_partner=2))
    trio.cut(trio.b)
    for body in (b"1", b"2", b"3"):
        trio.a.send(body)
        trio.settle()
    assert [type(error) for error in trio.a.refused] == [QuotaReached]
    trio.connect(trio.b)
    trio.later(1)
    assert trio.b.app.payloads == [b"1", b"2"]


def test_a_document_of_class_1_to_an_absent_target_ends_dropped_and_is_never_resent() -> None:
    """Break B12."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", save_fwd=1)
    trio.settle()
    assert trio.a.reported.events[-1].outcome == "DROPPED"
    trio.connect(trio.b)
    trio.later(200)
    assert trio.b.app.payloads == []
    assert trio.is_clean()


def test_a_document_of_class_1_without_a_link_is_dropped_at_once() -> None:
    trio = Trio(connected=False)
    trio.a.send(b"x", save_fwd=1)
    trio.later(1)
    assert trio.a.reported.events[-1].outcome == "DROPPED"
    assert trio.a.rows["tb_0031"] == 0


def test_a_document_of_class_1_without_an_answer_ends_unknown() -> None:
    """Rule N22."""
    trio = Trio()
    trio.lose = lambda wire, frame: is_message(frame)
    trio.a.send(b"x", save_fwd=1)
    trio.later(600)
    assert trio.a.reported.events[-1].outcome == "UNKNOWN"
    assert sum(map(is_message, trio.a.up.sent if trio.a.up else [])) == 1
    assert trio.is_clean()


@pytest.mark.parametrize(("save_fwd", "ack2"), [(1, True), (1, False), (2, True), (2, False)])
def test_lower_classes_arrive_when_both_nodes_are_online(save_fwd: int, ack2: bool) -> None:
    trio = Trio()
    trio.a.send(b"x", save_fwd=save_fwd, ack2=ack2)
    trio.later(2)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


@pytest.mark.parametrize("ack2", [True, False])
def test_a_document_of_class_2_is_stored_for_an_absent_target(ack2: bool) -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", save_fwd=2, ack2=ack2)
    trio.settle()
    assert trio.held == 1
    trio.connect(trio.b)
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


def test_the_sender_of_class_2_gets_the_reason_of_a_refusal_although_the_receipt_was_lost() -> None:
    """The receiver's entry for the LK0 keeps the reason after its row is deleted."""
    trio = Trio()
    trio.b.engine.core.settings = replace(trio.settings, max_document_bytes=1)
    trio.lose = packet_lost(Function.RECEIPTS)
    trio.a.send(b"too large", save_fwd=2)
    trio.settle()
    trio.lose = lambda wire, frame: False
    trio.later(60)
    (row,) = trio.a.store.tables.outbound.values()
    assert row.outcome is Outcome.REJECTED
    assert row.reason is not None
    assert row.reason[0] == DocumentTooLarge.code


def test_a_cancelled_document_never_arrives() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"1", b"2", order_key="k")
    trio.settle()
    lk0 = trio.a.accepted[0].lk0
    trio.a.engine.acts.cancel(lk0, lambda: None, trio.a.refused.append)
    trio.settle()
    trio.connect(trio.b)
    trio.later(2)
    assert trio.b.app.payloads == [b"2"]  # the marker fills the position in the order (rule N24)
    assert [event.outcome for event in trio.a.reported.events if event.kind == "failed"] == ["CANCELLED"]
    assert trio.is_clean()
    trio.a.engine.acts.cancel(lk0, lambda: None, trio.a.refused.append)
    trio.settle()
    assert len(trio.a.refused) == 1


def test_a_cancellation_that_comes_too_late_is_reported() -> None:
    trio = Trio()
    trio.lose = packet_lost(Function.RECEIPTS)
    trio.a.send(b"x")
    trio.settle()
    trio.a.engine.acts.cancel(trio.a.accepted[0].lk0, lambda: None, trio.a.refused.append)
    trio.settle()
    trio.lose = lambda wire, frame: False
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.kinds[-1] == "delivered"  # the receiver's ledger decides
    trio.a.engine.acts.cancel(trio.a.accepted[0].lk0, lambda: None, trio.a.refused.append)
    trio.settle()
    assert trio.a.refused


def test_order_is_kept_when_the_first_document_is_lost_on_the_way() -> None:
    """Rule N23."""
    trio = Trio()
    seen: list[Frame] = []

    def lose_first(wire: TrioWire, frame: Frame) -> bool:
        if is_message(frame):
            seen.append(frame)
        return is_message(frame) and len(seen) == 1

    trio.lose = lose_first
    trio.a.send(b"1", b"2", b"3", order_key="k")
    trio.a.send(b"free")
    trio.later(2)
    assert trio.b.app.payloads == [b"free"]
    trio.later(90)
    assert trio.b.app.payloads == [b"free", b"1", b"2", b"3"]
    assert trio.is_clean()


def test_a_document_that_the_application_rejects_is_parked_for_an_operator() -> None:
    trio = Trio()
    trio.b.app.acks = False
    trio.a.send(b"x")
    trio.settle()
    (delivery,) = trio.b.app.held
    trio.b.app.held.clear()
    trio.b.engine.answers.fail([delivery.bref], "no such customer")
    trio.later(5)
    assert trio.b.lines(Event.PARKED) == 1
    assert trio.a.reported.kinds[-1] == "delivered"
    assert trio.b.rows["tb_0030"] == 1  # the row waits for an operator
    trio.b.app.acks = True
    trio.b.engine.answers.requeue([delivery.bref], "the customer is known now")
    trio.later(5)
    assert trio.b.app.payloads == [b"x", b"x"]
    assert trio.is_clean()


def test_an_operator_removes_parked_and_refused_documents() -> None:
    trio = Trio()
    trio.b.app.acks = False
    trio.a.send(b"x")
    trio.settle()
    trio.b.engine.answers.fail([trio.b.app.held.pop().bref])
    trio.a.engine.partners.complete = False
    trio.a.send(b"y", to="77777")
    trio.later(5)
    assert (trio.a.rows["tb_0031"], trio.b.rows["tb_0030"]) == (1, 1)
    refused = next(iter(trio.a.store.tables.outbound.values())).lk0
    trio.b.engine.answers.remove(list(trio.b.store.tables.pending), "dealt with by telephone")
    for _ in range(2):
        trio.a.engine.acts.remove(refused, "wrong number", lambda: None, trio.a.refused.append)
        trio.later(5)
    assert trio.is_clean()
    assert len(trio.a.refused) == 1


def test_a_document_that_the_application_returns_is_delivered_again_and_finally_parked() -> None:
    trio = Trio(replace(SETTINGS, deliveries_max=3))
    trio.b.app.acks = False
    trio.a.send(b"x")
    for _ in range(3):
        trio.settle()
        (delivery,) = trio.b.app.held
        trio.b.app.held.clear()
        trio.b.engine.answers.give_back([delivery.bref])
    trio.settle()
    assert [d.deliveries for d in trio.b.app.deliveries] == [1, 2, 3]
    assert [row.app_status for row in trio.b.store.tables.pending.values()] == [AppStatus.PARKED]
    assert trio.b.lines(Event.PARKED) == 1


def test_a_message_to_one_s_own_node_never_leaves_it() -> None:
    trio = Trio(connected=False)
    trio.a.send(b"note", to="10008")
    trio.later(2)
    assert trio.a.app.payloads == [b"note"]
    assert trio.a.reported.kinds[-1] == "delivered"
    assert trio.a.rows["tb_0031"] == 0


def test_another_copy_requested_by_an_operator_is_harmless() -> None:
    trio = Trio()
    trio.lose = packet_lost(Function.RECEIPTS)
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: False
    trio.a.engine.acts.resend(trio.a.accepted[0].lk0, "nobody answers", lambda: None, trio.a.refused.append)
    trio.later(30)
    assert trio.b.app.payloads == [b"x"]
    assert trio.b.lines(Event.DUPLICATE) == 1
    assert trio.is_clean()
    trio.a.engine.acts.resend(trio.a.accepted[0].lk0, "", lambda: None, trio.a.refused.append)
    trio.settle()
    assert trio.a.refused


def test_a_held_document_waits_until_it_is_released() -> None:
    trio = Trio()
    trio.cut(trio.a)
    trio.a.send(b"1", b"2")
    trio.settle()
    held = trio.a.accepted[0].lk0
    trio.a.engine.acts.hold(held, True, "price unclear", lambda: None, trio.a.refused.append)
    trio.settle()
    trio.connect(trio.a)
    trio.later(1)
    assert trio.b.app.payloads == [b"2"]
    trio.a.engine.acts.hold(held, False, "clear now", lambda: None, trio.a.refused.append)
    trio.later(1)
    assert trio.b.app.payloads == [b"2", b"1"]
    trio.a.engine.acts.hold(held, True, "", lambda: None, trio.a.refused.append)
    trio.settle()
    assert len(trio.a.refused) == 1  # it was sent already


def test_no_frames_are_sent_when_all_messages_are_settled() -> None:
    """Invariant I5."""
    trio = Trio()
    trio.a.send(b"x")
    trio.later(5)
    wires = [wire for node in trio.nodes for wire in (node.up, node.down) if wire is not None]
    before = [len(wire.sent) for wire in wires]
    trio.later(600)
    assert [len(wire.sent) for wire in wires] == before


def test_fifty_receipts_leave_once_each_in_at_most_fifty_packets() -> None:
    trio = Trio()
    trio.cut(trio.a)
    trio.a.send(*(b"%d" % n for n in range(50)))
    trio.settle()
    trio.connect(trio.a)
    trio.settle()
    sent = [frame for frame in (trio.b.up.sent if trio.b.up else []) if isinstance(frame, Packet)]
    ack2s = [[r for r in frame.records if r.ack_flag is AckFlag.END_TO_END and r.status] for frame in sent]
    assert sum(map(len, ack2s)) == 50
    assert len(sent) <= 50  # one receipt in a packet is permitted: the memory wire delivers one frame at a time


def test_the_hub_reports_code_and_reason_of_a_refusal() -> None:
    trio = Trio()
    trio.directory.forbidden.add(trio.b.address)
    trio.a.send(b"x")
    trio.settle()
    (note,) = [r for r in records(trio.a.down.sent if trio.a.down else []) if getattr(r, "flag", None)]
    assert note.flag is HubFlag.REFUSED
    assert note.reason == ("SEMQ-1202", "not allowed")
