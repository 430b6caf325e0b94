"""An operator of the hub refuses or resends stored copies; unreadable bodies (PROTOCOL.md S15, H16 to H18)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from semq.engine.errors import Cancelled, RefusedByOperator, UnknownTarget
from semq.engine.hub.copy_acts import ActOnCopies
from semq.store.rows import Event, Outbound, Stored
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import Outcome, SendStatus
from tests.flows.trio import CLEAN, HUB, Trio, TrioWire, records

B = Address(1, "56001")


def stored(*bodies: bytes, **attributes: Any) -> Trio:
    """Return a trio in which B is offline and the hub has custody of documents of A."""
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(*(bodies or (b"x",)), **attributes)
    trio.settle()
    assert trio.held == len(bodies or (b"x",))
    return trio


def refuse(trio: Trio, *, only_copies: bool = False) -> Counter[str]:
    """Refuse all stored copies; return the number of rows by result."""
    return act(trio, "refuse", only_copies=only_copies)


def act(trio: Trio, method: str, rows: Sequence[int] | None = None, **options: Any) -> Counter[str]:
    """Call a method of ``copy_acts`` for these rows, or for all; return the number of rows by result."""
    received: list[Counter[str]] = []
    ids = list(trio.hub_store.tables.outbound) if rows is None else rows
    getattr(trio.hub.copy_acts, method)(ids, ActOnCopies("ops", "it has closed", received.append, fail), **options)
    assert received == []  # nothing before the commit
    trio.settle()
    return received[0]


def fail(error: Exception) -> None:
    raise AssertionError(error)


def row_of_a(trio: Trio) -> Outbound:
    (row,) = trio.a.store.tables.outbound.values()
    return row


def hub_details(trio: Trio, event: Event) -> list[str]:
    return [line.detail for line in trio.hub_store.tables.ledger if line.event is event]


def catch(dropped_wire: TrioWire | None, caught: list[Frame]) -> Callable[[TrioWire, Frame], bool]:
    """Return a function for ``Trio.lose`` that drops the frames on a wire and adds them to ``caught``."""

    def lose(wire: TrioWire, frame: Frame) -> bool:
        if wire is dropped_wire:
            caught.append(frame)
        return wire is dropped_wire

    return lose


REASON = "refused at the hub by ops: it has closed"


def test_an_unsent_refused_copy_ends_rejected_when_the_receiver_has_the_marker() -> None:
    trio = stored()
    assert refuse(trio) == {"refused": 1}
    row = row_of_a(trio)
    assert (row.outcome, row.void, row.has_payload) == (None, True, True)
    assert row.reason == (RefusedByOperator.code, f"{REASON} (this store of the hub had not sent it yet)")
    assert [(copy.void, copy.size) for copy in trio.hub_store.tables.outbound.values()] == [(True, 0)]
    assert hub_details(trio, Event.OPERATOR) == ["refused by ops: it has closed"]
    trio.connect(trio.b)
    trio.later(60)
    row = row_of_a(trio)
    assert (row.outcome, row.has_payload) == (Outcome.REJECTED, True)
    assert trio.a.reported.events[-1].reason == row.reason
    assert trio.a.store.tables.bodies[row.object_id].payload == b"x"
    assert trio.b.app.payloads == []
    assert trio.held == 0
    trio.a.send(b"y")
    trio.settle()
    assert trio.b.app.payloads == [b"y"]
    assert hub_details(trio, Event.FORWARDED) == [""]


@pytest.mark.parametrize("save_fwd", [3, 2])
def test_a_refused_copy_restored_from_a_backup_is_never_reported_as_refused(save_fwd: int) -> None:
    """The restored store has no record of the refusal, and delivers its copy."""
    trio = stored(save_fwd=save_fwd)
    backup = trio.hub_store.tables.snapshot()
    assert refuse(trio) == {"refused": 1}
    for node in trio.nodes:
        trio.cut(node)
    trio.hub_store.tables.restore(backup)
    trio.crash_hub()
    trio.connect(trio.b)
    trio.connect(trio.a)
    trio.later(120)
    assert trio.b.app.payloads == [b"x"]
    assert [event.outcome for event in trio.a.reported.events if event.outcome] == [
        "DELIVERED" if save_fwd == 3 else "UNKNOWN"
    ]
    assert trio.held == 0


@pytest.mark.parametrize("restart", [False, True], ids=["the hub continues", "the hub restarts"])
def test_an_offline_sender_is_notified_when_it_logs_in(restart: bool) -> None:
    trio = stored()
    trio.cut(trio.a)
    assert refuse(trio) == {"refused": 1}
    assert act(trio, "refuse") == {"repeated": 1}
    if restart:
        trio.crash_hub()
    assert trio.held == 1
    assert trio.hub_store.tables.bodies.keys() == trio.hub_store.tables.outbound.keys()
    assert all(not body.payload for body in trio.hub_store.tables.bodies.values())
    trio.connect(trio.a)
    trio.later(60)
    assert row_of_a(trio).void
    trio.connect(trio.b)
    trio.later(60)
    assert row_of_a(trio).outcome is Outcome.REJECTED
    assert trio.b.app.payloads == []
    assert trio.held == 0


@pytest.mark.parametrize("lost", ["the refusal", "its ReAck"])
def test_a_lost_refusal_or_reack_is_repeated(lost: str) -> None:
    trio = stored()
    losses = 0

    def lose(wire: TrioWire, frame: Frame) -> bool:
        nonlocal losses
        matching = [r for r in records([frame]) if getattr(r, "flag", None) is HubFlag.REFUSED or _is_reack(frame)]
        if matching and (wire is trio.a.down) is (lost == "the refusal") and losses < 2:
            losses += 1
            return True
        # The marker also shows the hub that the refusal was noted.
        return lost == "its ReAck" and wire is trio.a.up and isinstance(frame, Data) and losses < 2

    trio.lose = lose
    refuse(trio)
    assert trio.held == 1
    trio.later(120)
    assert losses == 2
    assert [copy.void for copy in trio.hub_store.tables.outbound.values()] == [True]
    trio.connect(trio.b)
    trio.later(60)
    assert trio.held == 0
    assert row_of_a(trio).outcome is Outcome.REJECTED
    assert trio.a.reported.kinds.count("failed") == 1


def _is_reack(frame: Frame) -> bool:
    to_hub = isinstance(frame, Packet) and frame.target.node == HUB
    return to_hub and isinstance(frame, Packet) and frame.primitive is Primitive.RESPONSE


def test_a_target_that_recorded_a_copy_before_its_refusal_keeps_it() -> None:
    """The target's Ack is lost before the operator acts."""
    trio = stored()
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.app.payloads == [b"x"]
    assert refuse(trio) == {"refused": 1}
    trio.lose = lambda wire, frame: False
    trio.later(120)
    assert trio.a.reported.kinds[-1] == "delivered"
    assert trio.is_clean()


def test_a_target_that_comes_back_later_finds_a_marker() -> None:
    """The copy was sent and lost."""
    trio = stored()
    trio.lose = lambda wire, frame: wire is trio.b.down
    trio.connect(trio.b)
    trio.settle()
    trio.cut(trio.b)
    assert refuse(trio) == {"refused": 1}
    assert trio.a.reported.kinds[-1] == "stored"  # the outcome is open, because B may log in
    trio.lose = lambda wire, frame: False
    trio.connect(trio.b)
    trio.later(120)
    assert trio.b.app.payloads == []
    assert trio.a.reported.events[-1].reason == (RefusedByOperator.code, REASON)
    assert row_of_a(trio).outcome is Outcome.REJECTED
    assert (trio.held, trio.b.rows) == (0, CLEAN)


def test_the_order_is_kept_around_a_refused_document() -> None:
    trio = stored(b"1", b"2", b"3", order_key="k")
    second = sorted(trio.hub_store.tables.outbound)[1]
    assert act(trio, "refuse", [second]) == {"refused": 1}
    trio.connect(trio.b)
    trio.later(120)
    assert trio.b.app.payloads == [b"1", b"3"]
    assert row_of_a(trio).outcome is Outcome.REJECTED


def test_the_only_copy_of_a_body_is_refused_only_on_request() -> None:
    trio = stored(ack2=False)
    assert refuse(trio) == {"only_copy": 1}
    assert refuse(trio, only_copies=True) == {"refused": 1}
    trio.connect(trio.b)
    trio.later(60)
    assert row_of_a(trio).outcome is Outcome.REJECTED
    assert not row_of_a(trio).has_payload
    assert trio.held == 0


def test_a_marker_is_refused_only_if_no_node_can_answer_it() -> None:
    """10008 cancels its document; then 56001 is removed from the definitions."""
    trio = stored()
    trio.a.engine.acts.cancel(row_of_a(trio).lk0, lambda: None, fail)
    trio.settle()
    assert refuse(trio) == {"marker": 1}
    trio.directory.addresses.remove(B)
    assert refuse(trio) == {"refused": 1}
    assert trio.a.reported.events[-1].outcome == "UNKNOWN"
    trio.later(60)
    assert (trio.held, trio.a.rows["tb_0031"]) == (0, 0)


def test_a_marker_that_its_target_has_not_recorded_in_many_attempts_is_refused() -> None:
    trio = stored()
    trio.a.engine.acts.cancel(row_of_a(trio).lk0, lambda: None, fail)
    trio.settle()
    (copy,) = trio.hub_store.tables.outbound.values()
    copy.parked = True
    assert refuse(trio) == {"refused": 1}
    assert trio.a.reported.events[-1].outcome == "UNKNOWN"
    trio.later(60)
    assert (trio.held, trio.a.rows["tb_0031"]) == (0, 0)


def test_a_copy_possibly_delivered_to_a_removed_target_ends_unknown_with_its_body() -> None:
    trio = stored()
    trio.lose = lambda wire, frame: wire is trio.b.down
    trio.connect(trio.b)
    trio.settle()
    trio.cut(trio.b)
    trio.directory.addresses.remove(B)
    assert refuse(trio) == {"refused": 1}
    row = row_of_a(trio)
    assert (row.outcome, row.has_payload) == (Outcome.UNKNOWN, True)
    assert row.reason is not None
    assert row.reason[0] == RefusedByOperator.code
    assert "it has closed. The hub does not know the target any more" in row.reason[1]
    trio.later(60)
    assert trio.a.store.tables.bodies[row.object_id].payload == b"x"
    assert trio.held == 0


def test_a_copy_that_a_cancelled_document_left_behind_can_be_refused() -> None:
    """The hub does not serve the target, so it refused the marker, and kept the copy (DECISIONS.md 55 and 56)."""
    trio = stored()
    trio.directory.addresses.remove(B)
    trio.a.engine.acts.cancel(row_of_a(trio).lk0, lambda: None, fail)
    trio.later(60)
    reason = trio.a.reported.events[-1].reason
    assert reason is not None
    assert reason[0] == UnknownTarget.code
    assert (trio.held, trio.a.rows["tb_0031"]) == (1, 0)
    assert refuse(trio) == {"refused": 1}
    assert trio.held == 0
    trio.directory.addresses.append(B)
    trio.connect(trio.b)
    trio.later(60)
    assert trio.b.app.payloads == []


def test_a_refused_copy_of_a_sender_that_is_no_longer_served_is_deleted() -> None:
    trio = stored()
    trio.cut(trio.a)
    refuse(trio)
    assert trio.held == 1
    trio.directory.addresses.remove(trio.a.address)
    assert refuse(trio) == {"repeated": 1}
    assert trio.held == 0


@pytest.mark.parametrize("sent", [False, True], ids=["never left", "was sent once"])
def test_a_refused_document_of_class_2_ends_unknown(sent: bool) -> None:
    """Class 2 has no markers."""
    trio = stored(save_fwd=2)
    if sent:
        trio.lose = lambda wire, frame: wire is trio.b.down
        trio.connect(trio.b)
        trio.settle()
        trio.cut(trio.b)
    assert refuse(trio) == {"refused": 1}
    event = trio.a.reported.events[-1]
    assert (event.outcome, event.reason) == (
        "UNKNOWN",
        (RefusedByOperator.code, REASON if sent else f"{REASON} (this store of the hub had not sent it yet)"),
    )
    trio.later(60)
    assert trio.held == 0


def test_a_sender_that_sends_a_refused_document_again_is_notified_again() -> None:
    trio = stored()
    trio.lose = lambda wire, frame: any(getattr(r, "flag", None) is HubFlag.REFUSED for r in records([frame]))
    refuse(trio)
    trio.lose = lambda wire, frame: False
    trio.a.engine.acts.resend(row_of_a(trio).lk0, "asked to", lambda: None, fail)
    trio.settle()
    assert row_of_a(trio).void  # the receiver decides, because a second copy was sent
    assert trio.a.up is not None
    assert [frame.envelope.void for frame in trio.a.up.sent if isinstance(frame, Data)] == [False, False, True]
    trio.connect(trio.b)
    trio.later(60)
    assert row_of_a(trio).outcome is Outcome.REJECTED
    assert trio.held == 0


def test_a_reack_of_another_node_than_the_sender_does_not_delete_a_refused_row() -> None:
    trio = stored()
    trio.cut(trio.a)
    refuse(trio)
    (row,) = trio.hub_store.tables.outbound.values()
    trio.connect(trio.b)
    for ident in (str(row.lk0), str(row.lk0._replace(id="56001")), "1.56001.1.1.5.9"):
        noted = Receipt(src_ref_id=row.object_id, ack_flag=AckFlag.TRANSPORT, ident=ident)
        packet = Packet(trio.b.address, HUB, Function.RECEIPTS, Primitive.RESPONSE, [noted])
        assert trio.b.down is not None
        trio.hub.receive(trio.b.down, [packet])
        trio.settle()
        assert trio.held == 1


def test_a_parked_copy_is_sent_again_at_once() -> None:
    trio = stored()
    trio.lose = lambda wire, frame: wire is trio.b.down
    trio.connect(trio.b)
    trio.settle()
    (row,) = trio.hub_store.tables.outbound.values()
    row.parked, row.ss_status = True, SendStatus.SS_INIT
    trio.lose = lambda wire, frame: False
    assert act(trio, "resend", [row.object_id, 7]) == {"resent": 1, "gone": 1}
    trio.later(1)
    assert trio.b.app.payloads == [b"x"]
    assert hub_details(trio, Event.OPERATOR) == ["sent again by ops: it has closed"]


def test_a_refused_copy_is_not_sent_again() -> None:
    trio = stored()
    trio.cut(trio.a)
    refuse(trio)
    assert act(trio, "resend") == {"refused": 1}
    trio.connect(trio.b)
    trio.later(30)
    assert trio.b.app.payloads == []


def test_a_cancelled_document_whose_payload_is_refused_ends_cancelled() -> None:
    """10008 cancels before the refusal arrives."""
    trio = stored()
    trio.cut(trio.a)
    refuse(trio)
    trio.a.engine.acts.cancel(row_of_a(trio).lk0, lambda: None, fail, "not wanted")
    trio.connect(trio.a)
    trio.later(60)
    trio.connect(trio.b)
    trio.later(60)
    assert trio.a.reported.events[-1].outcome == "CANCELLED"
    assert trio.a.reported.events[-1].reason == (Cancelled.code, "not wanted")
    assert trio.is_clean()


@pytest.mark.parametrize("trigger", ["the operator acts", "the sender sends again", "the sender asks", "the timer"])
def test_a_payload_is_reported_as_refused_if_its_row_becomes_a_marker_in_the_same_commit(trigger: str) -> None:
    """The hub reports after the commit, when the sender's marker is in the row."""
    trio = stored()
    frames: list[Frame] = []
    trio.lose = catch(trio.a.up, frames)
    trio.a.engine.acts.resend(row_of_a(trio).lk0, "asked to", lambda: None, fail)
    trio.settle()
    trio.a.engine.acts.cancel(row_of_a(trio).lk0, lambda: None, fail, "not wanted")
    trio.settle()
    again, marker = frames
    assert isinstance(again, Data)
    assert isinstance(marker, Data)
    (copy,) = trio.hub_store.tables.outbound.values()
    received: list[Frame] = []
    trio.lose = catch(trio.a.down, received)
    refusing = ActOnCopies("ops", "it has closed", lambda counts: None, fail)
    trio.hub.copy_acts.refuse([copy.object_id], refusing)
    custody = trio.hub.custody
    if trigger != "the operator acts":
        trio.settle()
        received.clear()
    if trigger == "the sender sends again":
        custody.expect(str(B))
        custody.store([(again, None)], trio.hub.relay._refuse)
    elif trigger == "the sender asks":
        trio.hub.copies.receive_inquiries(
            trio.a.address, B, [Inquiry(role=InquiryRole.S, ident=str(copy.lk0), sid=copy.sid, nonce=1)]
        )
    elif trigger == "the timer":
        trio.time.now += 60
        custody.sweep.tick()
    custody.expect(str(B))
    custody.store([(marker, None)], trio.hub.relay._refuse)
    assert len(trio.hub_store._queue) == 2  # one unit
    trio.settle()
    refusals = [record for record in records(received) if getattr(record, "flag", None) is HubFlag.REFUSED]
    assert [(record.void, record.reason and record.reason[0]) for record in refusals] == [
        (False, RefusedByOperator.code)
    ]
    trio.lose = lambda wire, frame: False
    trio.a.receive(*received)
    trio.settle()
    assert row_of_a(trio).outcome is None
    trio.connect(trio.b)
    trio.later(120)
    assert trio.a.reported.events[-1].outcome == "CANCELLED"
    assert trio.is_clean()


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_an_unreadable_document_can_be_cancelled(damage: str) -> None:
    """A marker needs no body."""
    trio = Trio()
    trio.cut(trio.a)
    trio.a.send(b"x", order_key="k")
    trio.settle()
    row, bodies = row_of_a(trio), trio.a.store.tables.bodies
    bodies[row.object_id] = Stored(b"\xff", b"")
    trio.connect(trio.a)
    trio.settle()
    assert row_of_a(trio).held
    if damage == "gone":
        del bodies[row.object_id]
    trio.a.engine.acts.cancel(row.lk0, lambda: None, fail, "cannot be read")
    trio.later(60)
    assert trio.a.reported.events[-1].outcome == "CANCELLED"
    assert trio.is_clean()


def test_a_copy_that_cannot_be_read_is_refused_or_tried_again() -> None:
    trio = stored(b"x", b"y")
    bodies = trio.hub_store.tables.bodies
    first, second = sorted(bodies)
    kept = bodies[second]
    bodies[first] = bodies[second] = Stored(b"\xff", b"")
    trio.connect(trio.b)
    trio.settle()
    assert [row.held for row in trio.hub_store.tables.outbound.values()] == [True, True]
    assert act(trio, "refuse", [first]) == {"refused": 1}
    trio.later(60)
    assert trio.a.reported.events[-1].outcome == "REJECTED"
    bodies[second] = kept  # the database is restored
    assert act(trio, "resend", [second]) == {"resent": 1}
    assert trio.b.app.payloads == [b"y"]
    trio.later(60)
    assert trio.held == 0


def test_a_copy_refused_during_its_claim_stays_refused_and_delays_no_other_copy() -> None:
    """The refusal and the claim share a commit."""
    trio = stored(b"x", b"y")
    first, _ = sorted(trio.hub_store.tables.outbound)
    received: list[Counter[str]] = []
    trio.hub.copy_acts.refuse([first], ActOnCopies("ops", "it has closed", received.append, fail))
    trio.connect(trio.b)
    trio.settle()
    assert received == [{"refused": 1}]
    assert row_of_a(trio).reason == (RefusedByOperator.code, f"{REASON} (this store of the hub had not sent it yet)")
    assert trio.b.app.payloads == [b"y"]
    trio.later(60)
    assert trio.held == 0
    assert row_of_a(trio).outcome is Outcome.REJECTED
