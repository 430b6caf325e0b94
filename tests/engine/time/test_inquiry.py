"""What waits in custody for a partner that is away is asked about at a pace that does not grow with its number."""

from dataclasses import replace

from semq.engine.settings import EngineSettings
from semq.umx_t.envelope import Frame, Function, Packet
from semq.umx_t.records import HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import SendStatus
from tests.flows.trio import SETTINGS, Trio, TrioWire, records

PER_S, COUNT = 2.0, 200
PACED = replace(
    SETTINGS, ask_rows=10, ask_pause_s=0.01, ask_custody_per_s=PER_S, inquiry_s=15, inquiry_custody_s_max=15
)  # fmt: skip


def waiting(count: int = COUNT) -> Trio:
    """A's rows are in custody, and B is away."""
    trio = Trio(PACED)
    trio.cut(trio.b)
    trio.a.send(*[b"%d" % n for n in range(count)])
    trio.settle()
    assert {row.ss_status for row in trio.a.store.tables.outbound.values()} == {SendStatus.SS_ACK}
    return trio


def asked(trio: Trio) -> list[str]:
    """The messages that A has asked about on its present session, in order."""
    assert trio.a.up is not None
    asks = [frame for frame in trio.a.up.sent if isinstance(frame, Packet) and frame.function is Function.INQUIRIES]
    return [r.ident for r in records(asks) if isinstance(r, Inquiry) and r.role is InquiryRole.S]


def test_a_backlog_in_custody_is_asked_about_at_its_pace() -> None:
    trio = waiting()
    trio.later(60)  # each once, to see that it is in custody
    first = asked(trio)
    assert set(first) == {str(row.lk0) for row in trio.a.store.tables.outbound.values()}
    trio.later(400)
    later = asked(trio)[len(first) :]
    assert len(later) <= PER_S * 400 + PACED.ask_rows
    assert len(later) >= PER_S * 400 / 2  # in turn, not some again and again
    assert max(later.count(ident) for ident in set(later)) - min(later.count(ident) for ident in set(later)) <= 1


def test_what_is_under_way_does_not_wait_for_it() -> None:
    trio = waiting()
    trio.later(60)

    def lose(wire: TrioWire, frame: Frame) -> bool:
        """The hub's word of custody."""
        notes = [r for r in records([frame]) if isinstance(r, Receipt) and r.flag is HubFlag.STORED]
        return wire is trio.a.down and bool(notes)

    trio.lose = lose
    trio.a.send(b"the one")
    trio.settle()
    (row,) = [row for row in trio.a.store.tables.outbound.values() if row.ss_status is SendStatus.SS_SENT]
    before = len(asked(trio))
    trio.later(PACED.inquiry_s * 1.5)
    assert str(row.lk0) in asked(trio)[before:]


def test_a_new_session_asks_about_everything_soon() -> None:
    """The custodian may be another one now, or may have lost what it held."""
    trio = waiting()
    trio.later(60)
    trio.cut(trio.a)
    trio.connect(trio.a)
    trio.later(10)
    assert len(set(asked(trio))) == COUNT


def test_the_usual_pieces_are_small_and_keep_the_budget_of_a_link() -> None:
    """Documents of the moment wait for a piece; 50 frames of 100 records a second are PROTOCOL.md section 13."""
    assert EngineSettings().ask_rows <= 250
    assert EngineSettings().ask_rows / EngineSettings().ask_pause_s == 50 * 100
