"""Sessions at the hub: their credit, the effects of their end, and new sessions that replace earlier ones."""

import pytest
from msgspec.structs import replace

from semq.engine.people.stuck import SILENT_AFTER
from semq.store.rows import Event
from semq.umx_t.envelope import Data, Packet, Primitive
from tests.flows.trio import SETTINGS, Trio, is_message


def hub_lines(trio: Trio, event: Event) -> int:
    return sum(line.event is event for line in trio.hub_store.tables.ledger)


def drop_frames_of_b(trio: Trio) -> None:
    trio.lose = lambda wire, frame: wire is trio.b.up


def test_a_received_message_frees_its_credit() -> None:
    trio = Trio(replace(SETTINGS, credit_messages=1))
    for body in (b"1", b"2", b"3"):
        trio.a.send(body)
        trio.settle()
    assert (hub_lines(trio, Event.FORWARDED), hub_lines(trio, Event.STORED)) == (3, 0)


def test_a_session_gets_no_more_unanswered_messages_than_its_credit() -> None:
    trio = Trio(replace(SETTINGS, credit_messages=2, inquiry_s=600))
    drop_frames_of_b(trio)
    for body in (b"1", b"2", b"3"):
        trio.a.send(body)
        trio.settle()
    assert (hub_lines(trio, Event.FORWARDED), hub_lines(trio, Event.STORED)) == (2, 1)


def test_an_unacknowledged_message_frees_its_credit_after_the_interval_of_inquiries() -> None:
    trio = Trio(replace(SETTINGS, credit_messages=1, inquiry_s=600))
    drop_frames_of_b(trio)
    trio.a.send(b"1")
    trio.later(590)
    assert trio.b.down is not None
    (first,) = [frame for frame in trio.b.down.sent if isinstance(frame, Data)]
    assert trio.a.down is not None
    trio.later(11)
    again = Data(first.envelope, first.body)
    trio.hub.receive(trio.a.down, [again])
    trio.settle()
    assert (hub_lines(trio, Event.FORWARDED), hub_lines(trio, Event.STORED)) == (2, 0)


def test_a_message_forwarded_again_counts_as_the_newest() -> None:
    """Otherwise later messages would not free their credit before this one does."""
    trio = Trio(replace(SETTINGS, credit_messages=3, inquiry_s=600))
    trio.lose = lambda wire, frame: True
    trio.a.send(b"1", b"2", b"3", b"4")
    trio.settle()
    assert trio.a.up is not None
    assert trio.a.down is not None
    first, second, third, fourth = [frame for frame in trio.a.up.sent if isinstance(frame, Data)]
    for moment, messages in ((0, [first, second]), (400, [first]), (450, [third]), (700, [fourth])):
        trio.later(1000 + moment - trio.time.now)
        trio.hub.receive(trio.a.down, messages)
    trio.settle()
    assert (hub_lines(trio, Event.FORWARDED), hub_lines(trio, Event.STORED)) == (5, 0)


def test_messages_under_way_in_a_former_session_use_no_credit() -> None:
    trio = Trio(replace(SETTINGS, credit_messages=1))
    trio.cut(trio.b)
    trio.a.send(b"1", b"2")
    trio.settle()
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    trio.connect(trio.b)
    trio.settle()
    trio.cut(trio.b)
    trio.lose = lambda wire, frame: False
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.app.payloads == [b"2"]


def test_a_target_that_logs_in_again_after_a_long_time_gets_inquiries_soon() -> None:
    """H13."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    trio.connect(trio.b)
    trio.settle()
    trio.cut(trio.b)
    trio.later(1000, step=1)
    trio.lose = lambda wire, frame: False
    trio.connect(trio.b)
    trio.later(SETTINGS.reconnect_spread_s)
    assert trio.b.app.payloads == [b"x"]


def test_offline_nodes_get_no_inquiries() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    drop_frames_of_b(trio)
    trio.connect(trio.b)
    trio.settle()
    trio.cut(trio.b)
    trio.later(1000, step=1)
    assert "inquired" not in trio.hub.core.counters.counts
    trio.cut(trio.a)
    assert trio.hub.next_due is None


def test_a_new_session_ends_the_earlier_session_of_its_node() -> None:
    """Section 10: the hub then reports to the senders which messages it forwarded over the half-open link (H15)."""
    trio = Trio()
    trio.lose = lambda wire, frame: is_message(frame) and wire is trio.b.down
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: False
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.app.payloads == [b"x"]


def test_a_replaced_session_is_ignored_and_its_end_has_no_effect() -> None:
    trio = Trio()
    (message,) = trio.send_and_catch(b"1")
    old_a, old_b = trio.a.down, trio.b.down
    assert old_a is not None
    assert old_b is not None
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.settle()
    before = hub_lines(trio, Event.FORWARDED)
    trio.hub.receive(old_a, [message])
    trio.hub.link_down(old_b)
    trio.settle()
    assert hub_lines(trio, Event.FORWARDED) == before
    trio.lose = lambda wire, frame: False
    trio.a.send(b"2")
    trio.settle()
    assert hub_lines(trio, Event.FORWARDED) == before + 1


def test_a_document_of_class_1_is_forwarded_although_the_hub_holds_a_copy_for_its_target() -> None:
    """Class 1 has no order."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"3")
    trio.settle()
    trio.lose = lambda wire, frame: isinstance(frame, Packet) and wire is trio.b.up
    trio.connect(trio.b)
    trio.settle()
    assert trio.held == 1
    trio.a.send(b"1", save_fwd=1)
    trio.settle()
    assert trio.b.app.payloads == [b"3", b"1"]


def test_receipts_of_lower_classes_are_not_answered() -> None:
    """The receiver of class 1 or 2 does not wait for a ReAck2."""
    trio = Trio()
    trio.a.send(b"1", save_fwd=1)
    trio.a.send(b"2", save_fwd=2)
    trio.settle()
    assert trio.a.reported.kinds.count("delivered") == 2
    assert trio.a.up is not None
    assert not [
        frame for frame in trio.a.up.sent if isinstance(frame, Packet) and frame.primitive is Primitive.RESPONSE
    ]


@pytest.mark.parametrize("before", ["recorded", "stored", "cancelled"])
def test_a_document_for_an_unknown_target_ends_when_it_is_cancelled(before: str) -> None:
    """UNKNOWN stays true whatever the target has recorded."""
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.b.up
    if before == "stored":
        trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    (accepted,) = trio.a.accepted
    if before == "cancelled":
        trio.a.engine.acts.cancel(accepted.lk0, lambda: None, trio.a.refused.append)
        trio.settle()
    if before != "stored":
        trio.cut(trio.b)
    trio.directory.addresses.remove(trio.b.address)
    trio.hub.send_changed_directory()
    trio.later(100)
    if before != "cancelled":  # else the hub's refusal of the marker has ended it
        assert [row.outcome for row in trio.a.store.tables.outbound.values()] == [None]
        trio.a.engine.acts.cancel(accepted.lk0, lambda: None, trio.a.refused.append)
        trio.settle()
    assert not trio.a.refused
    ended = trio.a.reported.events[-1]
    assert (ended.kind, ended.outcome, ended.reason and ended.reason[0]) == ("failed", "UNKNOWN", "SEMQ-1201")
    trio.lose = lambda wire, frame: False
    trio.directory.addresses.append(trio.b.address)
    trio.connect(trio.b)
    trio.later(310, step=1)
    assert trio.is_clean()
    assert trio.a.reported.events[-1] is ended


def test_a_message_for_an_unknown_target_is_not_stored() -> None:
    """The row of class 3 waits for the target or an operator."""
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.a.send(b"x")
    trio.a.send(b"1", save_fwd=1)
    trio.settle()
    trio.cut(trio.b)
    trio.directory.addresses.remove(trio.b.address)
    trio.hub.send_changed_directory()
    trio.later(4000, step=1)
    assert trio.held == 0
    assert [(row.outcome, row.void) for row in trio.a.store.tables.outbound.values()] == [(None, True)]
    assert trio.a.lines(Event.UNKNOWN) == 1  # class 1 does not wait
    assert trio.a.lines(Event.SENT) < 6
    assert min(trio.a.engine.sender.inquiry_counts.values()) >= SILENT_AFTER
    trio.lose = lambda wire, frame: False
    trio.directory.addresses.append(trio.b.address)
    trio.connect(trio.b)
    trio.later(310, step=1)
    assert trio.a.reported.kinds[-1] == "delivered"
    assert trio.is_clean()
