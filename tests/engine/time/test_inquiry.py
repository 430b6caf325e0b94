"""Inquiries about messages in custody: their rate does not grow with the number of messages."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from semq.engine.settings import EngineSettings
from semq.umx_t.envelope import Frame, Function, Packet
from semq.umx_t.records import HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import SendStatus
from tests.flows.trio import SETTINGS, Trio, TrioWire, records

PER_S, COUNT = 2.0, 200
PACED = replace(
    SETTINGS, ask_rows=10, ask_pause_s=0.01, ask_custody_per_s=PER_S, inquiry_s=15, inquiry_custody_s_max=15
)  # fmt: skip


def trio_with_backlog() -> Trio:
    """Return a trio in which ``COUNT`` rows of A are in custody, and B is away."""
    trio = Trio(PACED)
    trio.cut(trio.b)
    trio.a.send(*[b"%d" % n for n in range(COUNT)])
    trio.settle()
    assert {row.ss_status for row in trio.a.store.tables.outbound.values()} == {SendStatus.SS_ACK}
    return trio


def inquired(trio: Trio) -> list[str]:
    """Return the LK0s about which A has inquired in its present session, in order."""
    assert trio.a.up is not None
    packets = [frame for frame in trio.a.up.sent if isinstance(frame, Packet) and frame.function is Function.INQUIRIES]
    return [r.ident for r in records(packets) if isinstance(r, Inquiry) and r.role is InquiryRole.S]


def test_inquiries_about_a_backlog_in_custody_do_not_exceed_ask_custody_per_s() -> None:
    trio = trio_with_backlog()
    trio.later(60)  # A inquires once about each message
    first = inquired(trio)
    assert set(first) == {str(row.lk0) for row in trio.a.store.tables.outbound.values()}
    trio.later(400)
    later = inquired(trio)[len(first) :]
    assert len(later) <= PER_S * 400 + PACED.ask_rows
    assert len(later) >= PER_S * 400 / 2
    # Each message has its turn.
    assert max(later.count(ident) for ident in set(later)) - min(later.count(ident) for ident in set(later)) <= 1


def test_inquiries_about_messages_under_way_do_not_wait_for_a_backlog() -> None:
    trio = trio_with_backlog()
    trio.later(60)

    def lose(wire: TrioWire, frame: Frame) -> bool:
        notes = [r for r in records([frame]) if isinstance(r, Receipt) and r.flag is HubFlag.STORED]
        return wire is trio.a.down and bool(notes)

    trio.lose = lose
    trio.a.send(b"the one")
    trio.settle()
    (row,) = [row for row in trio.a.store.tables.outbound.values() if row.ss_status is SendStatus.SS_SENT]
    before = len(inquired(trio))
    trio.later(PACED.inquiry_s * 1.5)
    assert str(row.lk0) in inquired(trio)[before:]


def newest(trio: Trio, count: int) -> set[str]:
    """Return the LK0s of the rows that A accepted last."""
    return {str(row.lk0) for _, row in sorted(trio.a.store.tables.outbound.items())[-count:]}


def reconnect(trio: Trio) -> None:
    trio.cut(trio.a)
    trio.connect(trio.a)


def restart(trio: Trio) -> None:
    trio.a.crash()
    trio.connect(trio.a)


@pytest.mark.parametrize("interrupt", [reconnect, restart])
def test_a_new_session_inquires_soon_about_a_sample_of_the_messages_in_custody(
    interrupt: Callable[[Trio], None],
) -> None:
    trio = trio_with_backlog()
    trio.later(60)
    interrupt(trio)
    trio.later(10)
    inquiries = inquired(trio)
    assert newest(trio, PACED.ask_rows) <= set(inquiries)
    assert len(inquiries) <= PER_S * 10 + 2 * PACED.ask_rows
    trio.later(COUNT / PER_S + 60)
    assert len(set(inquired(trio))) == COUNT


def test_a_round_that_new_sessions_interrupt_reaches_every_row() -> None:
    trio = trio_with_backlog()
    trio.later(60)
    inquiries: set[str] = set()
    for _ in range(COUNT // 10):
        reconnect(trio)
        trio.later(20)
        inquiries |= set(inquired(trio))
    assert len(inquiries) == COUNT


@pytest.mark.parametrize("is_online", [False, True])
def test_a_lost_copy_makes_its_sender_inquire_about_all_messages_soon(is_online: bool) -> None:
    """The hub was restored, and its newest copies are missing. The target is offline, or denies the messages."""
    trio = trio_with_backlog()
    trio.later(60)
    trio.crash_hub()
    lost = newest(trio, COUNT // 4)
    tables = trio.hub_store.tables
    for object_id, row in list(tables.outbound.items()):
        if str(row.lk0) in lost:
            del tables.outbound[object_id], tables.relayed[str(row.lk0)]
    trio.start_hub()
    trio.connect(trio.a)
    if is_online:
        trio.connect(trio.b)
    trio.later(30)
    if is_online:
        assert set(trio.b.app.payloads) == {b"%d" % n for n in range(COUNT)}
    else:
        assert len(set(inquired(trio))) == COUNT
    assert trio.a.engine.core.counters.counts["custody_lost"] == 1


def test_delivered_copies_do_not_count_as_lost() -> None:
    trio = trio_with_backlog()
    trio.later(60)
    trio.connect(trio.b)
    trio.later(300)
    assert trio.is_clean()
    assert "custody_lost" not in trio.a.engine.core.counters.counts


def test_the_default_inquiry_budget_of_a_link_is_250_rows_every_50_ms() -> None:
    """Documents may have to wait for a piece of inquiry work (PROTOCOL.md section 13)."""
    assert EngineSettings().ask_rows <= 250
    assert EngineSettings().ask_rows / EngineSettings().ask_pause_s == 5_000
