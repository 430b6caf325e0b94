"""Rows that change in the unit in which a node searches for them: the search must not overlook them.

An overlooked row would wait until the next start of the process. Cursors, windows and the numbers of free places are
kept in memory and may differ from the rows.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from semq.store.rows import Event, Outbound, Stored
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, HubFlag, Receipt
from semq.umx_t.status import Outcome
from tests.flows.trio import HUB, SETTINGS, Trio, forwarded, is_message

TO = "1.56001"


def sent(trio: Trio) -> list[bytes]:
    """Return the bodies that A has sent on its present link."""
    assert trio.a.up is not None
    return [bytes(frame.body) for frame in trio.a.up.sent if isinstance(frame, Data)]


def post_statement(trio: Trio, row: Outbound, **facts: object) -> None:
    """Post a statement about A's row, for the next ``settle``."""
    source = trio.b.address if "status" in facts else HUB
    record = Receipt(ident=str(row.lk0), att=row.att, **facts)  # type: ignore[arg-type]
    assert trio.a.up is not None
    packet = Packet(source, trio.a.address, Function.RECEIPTS, Primitive.INDICATION, [record])
    trio.a.engine.receive(trio.a.up, [packet])


def one_sent_one_waiting(window: int = 65_536) -> tuple[Trio, Outbound, Outbound]:
    """Return a trio and two rows of A: one is SS_SENT, the other waits.

    With ``window`` 1 it waits for the window, else for room.
    All frames of A are lost until the test changes ``lose``.
    """
    trio = Trio(replace(SETTINGS, window=window))
    trio.lose = lambda wire, frame: wire is trio.a.up
    trio.a.send(b"1")
    trio.settle()
    assert trio.a.up is not None
    trio.a.up.room = 0 if window > 1 else 1000
    trio.a.send(b"2")
    trio.settle()
    trio.a.up.room = 1000
    first, second = trio.a.store.tables.outbound.values()
    assert sent(trio) == [b"1"]
    return trio, first, second


FAILED = {"flag": HubFlag.FORWARD_FAILED}
ARRIVED = {"ack_flag": AckFlag.END_TO_END, "status": Answer.RECV}


def test_the_claim_of_a_later_row_does_not_skip_a_row_to_be_sent_again() -> None:
    trio, first, _ = one_sent_one_waiting()
    post_statement(trio, first, **FAILED)
    trio.a.engine.send_waiting()
    trio.settle()
    assert sent(trio) == [b"1", b"2", b"1"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(FAILED, [b"1", b"1"], id="the first row is sent again"),
        pytest.param(ARRIVED, [b"1", b"2"], id="the window moves"),
    ],
)
def test_a_claim_at_the_end_of_the_window_does_not_block_a_track_that_has_room_again(
    statement: dict[str, object], expected: list[bytes]
) -> None:
    trio, first, second = one_sent_one_waiting(window=1)
    post_statement(trio, first, **statement)
    trio.a.engine.rows.pump.wake(second)
    trio.settle()
    assert sent(trio) == expected


def test_a_document_accepted_during_an_empty_claim_is_claimed_by_the_next_one() -> None:
    trio = Trio()
    trio.a.send(b"x")
    trio.a.engine.rows.pump.wake_track(TO, "", 0)
    trio.settle()
    assert trio.b.app.payloads == [b"x"]


def test_new_documents_are_sent_after_waiting_ones() -> None:
    trio = Trio()
    assert trio.a.up is not None
    trio.a.up.room = 0
    trio.a.send(b"1")
    trio.settle()
    trio.a.up.room = 1000
    trio.a.send(b"2")
    trio.settle()
    assert sent(trio) == [b"1", b"2"]


def test_a_document_of_class_1_overtakes_waiting_messages() -> None:
    """A document of class 1 is sent at once, or dropped without a link."""
    trio, _, _ = one_sent_one_waiting(window=1)
    trio.a.send(b"3", save_fwd=1)
    trio.settle()
    assert sent(trio) == [b"1", b"3"]
    trio.cut(trio.a)
    trio.a.send(b"4", save_fwd=1)
    trio.settle()
    assert trio.a.lines(Event.DROPPED) == 1


def test_a_document_that_ends_before_its_claim_is_not_sent() -> None:
    trio = Trio(connected=False)
    trio.a.send(b"x", save_fwd=2)
    trio.settle()
    (row,) = trio.a.store.tables.outbound.values()
    trio.a.engine.acts.cancel(row.lk0, lambda: None, lambda error: None)
    trio.connect(trio.a)
    trio.settle()
    assert sent(trio) == []
    assert [event.outcome for event in trio.a.reported.events] == [Outcome.CANCELLED.name]


def test_a_document_that_ends_before_its_inquiry_causes_none() -> None:
    trio = forwarded()
    (row,) = trio.a.store.tables.outbound.values()
    due = trio.a.engine.asker.sweep.next_due
    assert due is not None
    trio.time.now = due
    post_statement(trio, row, **ARRIVED)
    trio.a.engine.tick()
    trio.a.store.run()
    assert trio.a.engine.asker.sweep.next_due is None
    sender = trio.a.engine.sender
    assert (sender.nonces, sender.inquiry_counts, sender.negative_answers, sender.away_since) == ({}, {}, {}, {})


# ------------------------------------------------------------------------------------------------------------- receiver


@pytest.mark.parametrize("places", [0, 1, 2])
def test_documents_that_arrive_together_fill_only_free_places(places: int) -> None:
    trio = Trio()
    messages = trio.send_and_catch(b"1", b"2", b"3")
    trio.b.app.acks = False
    trio.b.app.places = places
    trio.b.receive(*messages)
    assert trio.b.app.payloads == [b"1", b"2", b"3"][:places]
    trio.b.app.places = 3
    trio.b.engine.handover.feed("")
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2", b"3"]


def test_arriving_documents_are_delivered_after_waiting_ones() -> None:
    trio = Trio()
    trio.b.app.places = 0
    trio.a.send(b"1")
    trio.settle()
    trio.b.app.places = 1
    trio.a.send(b"2")
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2"]


def take_first_of_two(trio: Trio) -> None:
    """Let B's application get the first of two documents, with room for two afterwards."""
    trio.b.app.acks = False
    trio.b.app.places = 1
    trio.a.send(b"1", b"2")
    trio.settle()
    assert trio.b.app.payloads == [b"1"]
    trio.b.app.places = 2


def given_back(trio: Trio) -> None:
    take_first_of_two(trio)
    trio.b.engine.answers.give_back([trio.b.app.held.pop().bref])


def arriving(trio: Trio) -> None:
    """Let a document arrive at a restarted B when its application begins to consume."""
    messages = trio.send_and_catch(b"2", b"1")
    trio.b.app.places = 0
    trio.b.crash()
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.up is not None
    trio.b.engine.receive(trio.b.up, messages[:1])
    trio.b.app.places = 100
    trio.lose = lambda wire, frame: is_message(frame)


@pytest.mark.parametrize(("scene", "expected"), [(given_back, [b"1", b"2", b"1"]), (arriving, [b"2"])])
def test_a_document_that_arrives_or_returns_during_a_search_is_delivered_by_the_next_one(
    scene: Callable[[Trio], None], expected: list[bytes]
) -> None:
    trio = Trio()
    scene(trio)
    trio.b.engine.handover.feed("")
    trio.settle()
    assert trio.b.app.payloads == expected


def test_a_duplicate_is_acknowledged_like_the_first_copy() -> None:
    """Rule N29."""
    trio = Trio()
    (message,) = trio.send_and_catch(b"x")
    assert trio.b.up is not None
    for _ in range(2):
        before = len(trio.b.up.sent)
        trio.b.receive(message)
        trio.b.engine.flush()
        (packet,) = trio.b.up.sent[before:]
        assert isinstance(packet, Packet)
        assert [(record.ack_flag, record.status) for record in packet.records] == [(AckFlag.END_TO_END, Answer.RECV)]


def test_an_unreadable_document_to_send_waits_for_an_operator_and_delays_no_other() -> None:
    trio = Trio(connected=False)
    trio.a.send(b"1", b"2")
    trio.settle()
    tables = trio.a.store.tables
    first = min(tables.bodies)
    tables.bodies[first] = Stored(b"damaged", b"1")
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.app.payloads == [b"2"]
    (row,) = tables.outbound.values()
    assert (row.held, row.reason and row.reason[0]) == (True, "SEMQ-1223")
    assert trio.a.lines(Event.PARKED) == 1


@pytest.mark.parametrize("order_key", ["", "k"])
def test_an_unreadable_received_document_is_parked_and_delays_no_other(order_key: str) -> None:
    trio = Trio()
    trio.b.app.places = 0
    trio.a.send(b"1", b"2", order_key=order_key)
    trio.settle()
    tables = trio.b.store.tables
    tables.pending_bodies[min(tables.pending_bodies)] = Stored(b"damaged", b"1")
    trio.b.app.places = 1
    trio.b.engine.handover.feed("")
    trio.settle()
    assert trio.b.app.payloads == [b"2"]
    assert "PARKED" in {row.app_status.name for row in tables.pending.values()}
    assert trio.b.lines(Event.PARKED) == 1
