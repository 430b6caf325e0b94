"""Repeated copies of stored documents: no quota applies, and no copy without body replaces a complete one."""

from msgspec.structs import replace
from msgspec.structs import replace as changed

from semq.engine.errors import Expired, QuotaReached
from semq.engine.settings import EngineSettings
from semq.store.rows import Event, Outbound
from semq.umx_t.envelope import Data, Envelope, Frame
from semq.umx_t.status import Outcome, SendStatus
from tests.flows.trio import SETTINGS, Trio, TrioWire, is_message

FULL = replace(SETTINGS, quota_rows_per_partner=1)  # one stored copy uses up the quota


def row_of_a(trio: Trio) -> Outbound:
    (row,) = trio.a.store.tables.outbound.values()
    return row


def trio_with_custody(settings: EngineSettings = FULL) -> tuple[Trio, list[Data]]:
    """Return a trio in which the hub has custody of a document of A, and the messages that A sends."""
    trio = Trio(settings)
    sent: list[Data] = []
    trio.cut(trio.b)

    def keep(wire: TrioWire, frame: Frame) -> bool:
        if wire is trio.a.up and isinstance(frame, Data):
            sent.append(frame)
        return False

    trio.lose = keep
    trio.a.send(b"x")
    trio.settle()
    assert trio.held == 1
    return trio, sent


def test_a_second_copy_is_not_refused_for_the_quota_that_the_stored_one_uses_up() -> None:
    trio, _ = trio_with_custody()
    done: list[object] = []
    trio.a.engine.acts.resend(row_of_a(trio).lk0, "asked to", lambda: done.append(True), done.append)
    trio.settle()
    row = row_of_a(trio)
    assert done == [True]
    assert (row.ss_status, row.void, row.att) == (SendStatus.SS_ACK, False, 2)
    assert not any(line.event is Event.REFUSED for line in trio.hub_store.tables.ledger)
    trio.connect(trio.b)
    trio.later(30)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.events[-1].outcome == Outcome.DELIVERED.name
    assert trio.is_clean()


def test_a_repeated_frame_is_not_both_accepted_and_refused() -> None:
    """The quota is used up by the copy that the store is writing."""
    trio = Trio(FULL)
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.a.store.run()
    ((wire, frame),) = [(wire, frame) for wire, frame in trio.wires if is_message(frame)]
    trio.wires.clear()
    wire.arrive(frame)
    wire.arrive(frame)
    trio.settle()
    assert (row_of_a(trio).ss_status, row_of_a(trio).outcome) == (SendStatus.SS_ACK, None)
    trio.connect(trio.b)
    trio.later(30)
    assert trio.a.reported.events[-1].outcome == Outcome.DELIVERED.name


def test_another_document_is_refused_for_the_quota_that_a_stored_copy_uses_up() -> None:
    trio, (frame,) = trio_with_custody()
    other = changed(frame, envelope=with_another_name(frame.envelope))
    assert trio.a.up is not None
    trio.a.up.arrive(other)
    trio.settle()
    assert trio.held == 1
    refused = [line for line in trio.hub_store.tables.ledger if line.event is Event.REFUSED]
    assert [(line.lk0, line.detail[:9]) for line in refused] == [(other.envelope.ident, QuotaReached.code)]
    assert trio.hub.custody.is_full("1.56001")
    trio.connect(trio.b)
    trio.later(30)
    assert trio.b.app.payloads == [b"x"]
    assert trio.hub.custody.is_clear("1.10008", "1.56001")


def test_refused_messages_use_no_quota() -> None:
    trio, (frame,) = trio_with_custody(replace(SETTINGS, quota_rows_per_partner=2))
    late = changed(with_another_name(frame.envelope), attributes=changed(frame.envelope.attributes, expires_at=1))
    good = changed(frame.envelope, lk0=frame.envelope.lk0._replace(object_id=7), sid=7)
    assert trio.a.down is not None
    trio.hub.receive(trio.a.down, [changed(frame, envelope=late), changed(frame, envelope=good)])
    trio.settle()
    assert trio.held == 2
    refused = [line for line in trio.hub_store.tables.ledger if line.event is Event.REFUSED]
    assert [(line.lk0, line.detail[:9]) for line in refused] == [(late.ident, Expired.code)]


def with_another_name(envelope: Envelope) -> Envelope:
    lk0 = envelope.lk0._replace(object_id=envelope.lk0.object_id + 7)
    return changed(envelope, lk0=lk0, sid=envelope.sid + 7)


def test_a_copy_without_its_body_does_not_replace_a_complete_copy() -> None:
    """The size limit of the link was lowered between the copies, so the second one has no body."""
    trio, (frame,) = trio_with_custody()
    assert trio.a.up is not None
    trio.a.up.arrive(changed(frame, envelope=changed(frame.envelope, signature="2.a.b", att=2), body=b"", dropped=1))
    trio.settle()
    trio.connect(trio.b)
    trio.later(30)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()
