"""Ack-Fwd: sent once if no Ack2 passes within the delay, and not after the end of the target's session."""

from msgspec import structs
from msgspec.structs import replace

from semq.store.rows import Event
from semq.umx_t.envelope import Data
from semq.umx_t.records import HubFlag, Receipt
from semq.umx_t.status import SendStatus
from tests.flows.trio import SETTINGS, Trio, records

HOLD_S = SETTINGS.forward_note_s


def drop_frames_of_b(trio: Trio) -> None:
    trio.lose = lambda wire, frame: wire is trio.b.up


def reports(trio: Trio) -> list[HubFlag | None]:
    """Return the flags of the reports that the hub has sent to A."""
    assert trio.a.down is not None
    return [r.flag for r in records(trio.a.down.sent) if isinstance(r, Receipt) and r.flag is not None]


def status(trio: Trio) -> SendStatus:
    (row,) = trio.a.store.tables.outbound.values()
    return row.ss_status


def test_an_ack2_makes_the_ack_fwd_superfluous() -> None:
    trio = Trio()
    trio.a.send(b"1", b"2", b"3")
    trio.a.send(b"4", save_fwd=1)
    trio.settle()
    trio.later(2 * HOLD_S)
    assert trio.a.reported.kinds.count("delivered") == 4
    assert reports(trio) == []
    assert trio.hub.relay.notes.next_due is None
    assert trio.a.lines(Event.FORWARDED) == 0


def test_without_an_ack2_the_ack_fwd_is_sent_once_after_the_delay() -> None:
    trio = Trio()
    drop_frames_of_b(trio)
    trio.a.send(b"x")
    trio.settle()
    assert (reports(trio), status(trio)) == ([], SendStatus.SS_SENT)
    trio.later(HOLD_S)
    assert (reports(trio), status(trio)) == ([HubFlag.FORWARDED], SendStatus.SS_ACK_FWD)
    trio.later(5 * HOLD_S)
    assert reports(trio) == [HubFlag.FORWARDED]


def test_each_attempt_has_its_own_delay() -> None:
    trio = Trio(replace(SETTINGS, forward_note_s=100, inquiry_s=600))
    drop_frames_of_b(trio)
    trio.a.send(b"x")
    trio.settle()
    trio.later(60)
    assert trio.a.up is not None
    (first,) = [frame for frame in trio.a.up.sent if isinstance(frame, Data)]
    trio.hub.receive(trio.a.down, [Data(structs.replace(first.envelope, att=2), first.body)])  # type: ignore[arg-type]
    trio.later(60)
    assert reports(trio) == []  # the delay of the first attempt does not apply to the second
    trio.later(50)
    assert reports(trio) == [HubFlag.FORWARDED]


def test_the_end_of_the_session_is_reported_instead_of_the_held_ack_fwd() -> None:
    trio = Trio()
    drop_frames_of_b(trio)
    trio.a.send(b"x")
    trio.settle()
    trio.cut(trio.b)
    trio.later(3 * HOLD_S)
    assert HubFlag.FORWARDED not in reports(trio)
    assert HubFlag.FORWARD_FAILED in reports(trio)


def test_only_the_target_can_drop_a_held_ack_fwd() -> None:
    trio = Trio()
    drop_frames_of_b(trio)
    trio.a.send(b"x")
    trio.settle()
    assert trio.a.down is not None
    session = trio.hub.sessions["1.10008"]
    (row,) = trio.a.store.tables.outbound.values()
    trio.hub.relay.acknowledged(session, [str(row.lk0)])
    trio.later(2 * HOLD_S)
    assert reports(trio) == [HubFlag.FORWARDED]
