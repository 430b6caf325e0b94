"""Documents with an expiry: receivers record none after it, and the sender is informed."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace as changed

from semq.engine.errors import Expired
from semq.store.rows import Event
from semq.store.unit import ExpiredRows
from semq.store.work import Work
from semq.umx_t.envelope import Data, Frame
from semq.umx_t.status import Outcome, SendStatus
from tests.clocks import ManualClock
from tests.flows.trio import Trio, is_message
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until


def in_ms(trio: Trio, seconds: float) -> int:
    """Return a time from now as a value of @ExpiresAt."""
    return int((trio.time.wall().timestamp() + seconds) * 1000)


def test_a_document_expired_before_sending_ends_rejected_with_its_body() -> None:
    trio = Trio()
    trio.cut(trio.a)
    soon = in_ms(trio, 2)
    trio.a.send(b"x", expires_at=soon)
    trio.later(5)
    trio.connect(trio.a)
    trio.later(5)
    assert trio.b.app.payloads == []
    _check_expired(trio)
    trio.a.send(b"y", expires_at=soon)
    assert isinstance(trio.a.refused[-1], Expired)


def _check_expired(trio: Trio, *, body: bytes = b"x") -> None:
    """Check that A's only row has expired, with this body, and that hub and B have no row."""
    assert trio.a.reported.events[-1].kind == "failed"
    assert trio.a.reported.events[-1].outcome == "REJECTED"
    assert trio.a.reported.events[-1].reason is not None
    assert trio.a.reported.events[-1].reason[0] == Expired.code
    (row,) = trio.a.store.tables.outbound.values()
    assert (row.outcome, row.has_payload) == (Outcome.REJECTED, bool(body))
    assert trio.a.store.tables.bodies[row.object_id].payload == body
    trio.later(60)
    assert trio.held == 0
    assert trio.b.rows["tb_0030"] == 0


@pytest.mark.parametrize("att", [1, 2], ids=["the only copy", "a later copy"])
@pytest.mark.parametrize("order_key", ["", "k"])
def test_the_hub_does_not_forward_expired_documents(att: int, order_key: str) -> None:
    """The sender's clock is behind."""
    trio = Trio()
    if att == 2:
        trio.lose = lambda wire, frame: is_message(frame)
    trio.a.engine.core.clock = LaggingClock(trio.time)
    trio.a.send(b"x", expires_at=in_ms(trio, 3), order_key=order_key)
    if att == 1:
        trio.time.now += 4
    trio.later(5)
    trio.lose = lambda wire, frame: False
    trio.later(60)
    assert not [frame for frame in sent_to_b(trio) if isinstance(frame, Data) and not frame.envelope.void]
    _check_expired(trio)


@pytest.mark.parametrize(("save_fwd", "order_key"), [(3, ""), (3, "k"), (2, "")])
@pytest.mark.parametrize("clock", ["right", "the sender's is behind", "the receiver's is behind"])
def test_the_hub_sends_documents_that_expired_in_its_store_without_a_body(
    clock: str, save_fwd: int, order_key: str
) -> None:
    """The sender is offline when its target logs in, and is informed later."""
    trio = Trio()
    trio.cut(trio.b)
    for node in (trio.a, trio.b):
        if ("sender" in clock and node is trio.a) or ("receiver" in clock and node is trio.b):
            node.engine.core.clock = LaggingClock(trio.time)
    trio.a.send(b"x", expires_at=in_ms(trio, 3), order_key=order_key, save_fwd=save_fwd)
    trio.later(1)
    assert trio.held == 1
    trio.cut(trio.a)
    trio.later(5)
    trio.connect(trio.b)
    trio.later(10)
    assert trio.b.app.payloads == []
    assert [bytes(frame.body) for frame in sent_to_b(trio) if isinstance(frame, Data)] == [b""]
    assert trio.held == 0
    trio.connect(trio.a)
    trio.later(90)
    if save_fwd == 3:
        _check_expired(trio)
    else:  # class 2: one report, and a limited number of inquiries
        assert trio.a.reported.events[-1].outcome in ("REJECTED", "UNKNOWN")


def test_an_expired_copy_whose_sender_has_deleted_the_payload_ends_rejected_without_a_body() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", expires_at=in_ms(trio, 3), ack2=False)
    trio.later(5)
    assert trio.held == 1
    trio.connect(trio.b)
    trio.later(5)
    assert trio.b.app.payloads == []
    _check_expired(trio, body=b"")


def test_a_late_copy_does_not_change_a_document_recorded_in_time() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", expires_at=in_ms(trio, 20))
    trio.later(1)
    trio.connect(trio.b)
    trio.lose = lambda wire, frame: not is_message(frame)  # B's Acks are lost
    trio.later(1)
    trio.crash_hub()
    trio.b.crash()
    trio.later(30)
    trio.lose = lambda wire, frame: False
    for row in trio.hub_store.tables.outbound.values():
        row.ss_status = SendStatus.SS_INIT  # as after a late answer
    trio.connect(trio.b)
    trio.hub.custody.pump.wake_all(str(trio.b.address))
    trio.connect(trio.a)
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.kinds[-1] == "delivered"
    assert trio.is_clean()


def test_a_copy_marked_late_is_a_violation_if_the_document_has_no_expiry() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.later(1)
    trio.connect(trio.b)
    trio.lose = lambda wire, frame: is_message(frame)
    trio.settle()
    (copy,) = [frame for frame in sent_to_b(trio) if isinstance(frame, Data)]
    trio.lose = lambda wire, frame: False
    assert trio.b.down is not None
    trio.b.down.send(Data(changed(copy.envelope, late=True), b""))
    trio.settle()
    assert trio.b.lines(Event.VIOLATION) == 1
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]


def test_a_document_of_class_2_that_was_never_sent_ends_rejected() -> None:
    trio = Trio()
    trio.cut(trio.a)
    trio.a.send(b"x", save_fwd=2, expires_at=in_ms(trio, 3))
    trio.later(5)
    _check_expired(trio)


@pytest.mark.parametrize(("save_fwd", "order_key"), [(3, ""), (3, "k"), (2, ""), (1, "")])
def test_the_receiver_refuses_a_document_that_arrives_after_its_expiry(save_fwd: int, order_key: str) -> None:
    """The receiver's clock decides; here it is 10 s ahead."""
    trio = Trio()
    trio.b.engine.core.clock = LaggingClock(trio.time, -10)
    trio.a.send(b"x", expires_at=in_ms(trio, 3), order_key=order_key, save_fwd=save_fwd)
    trio.later(2)
    assert trio.b.app.payloads == []
    assert trio.b.lines(Event.REJECTED) == 1
    _check_expired(trio)


def test_a_document_received_in_time_is_delivered_at_any_later_time() -> None:
    trio = Trio()
    trio.b.app.places = 0
    trio.a.send(b"x", expires_at=in_ms(trio, 3))
    trio.later(10)
    assert trio.a.reported.kinds[-1] == "delivered"
    trio.b.app.places = 100
    trio.b.engine.handover.feed("")
    trio.later(1)
    assert trio.b.app.payloads == [b"x"]


def sent_to_b(trio: Trio) -> list[Frame]:
    return trio.b.down.sent if trio.b.down is not None else []


class LaggingClock(ManualClock):
    """The wall clock of a node that is ``seconds`` behind, or ahead if negative."""

    def __init__(self, time: ManualClock, seconds: float = 100_000) -> None:
        self._time = time
        self._behind = timedelta(seconds=seconds)

    @property
    def now(self) -> float:  # type: ignore[override]
        return self._time.now

    def monotonic(self) -> float:
        return self._time.monotonic()

    def wall(self) -> datetime:
        return self._time.wall() - self._behind


async def test_real_nodes_deliver_nothing_late_while_the_sender_is_down(inprocess: InProcess) -> None:
    """The document waits at the hub, its sender stops, it expires, its receiver logs in."""
    hub = await inprocess.hub()
    settings = inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=hub.port))
    a = await inprocess.start_node(settings)
    await linked(a)
    expires_at = a.engine.core.now_ms() + 6000
    document = {"target": "56001", "body_base64": "eA==", "expires_at": expires_at}
    lk0 = (await ask(await inprocess.client(a), "msg.submit", document))["result"]["lk0"]
    await until(lambda: hub.engine.custody.rows_by_target.get("1.56001"))
    await a.stop()
    await until(lambda: hub.engine.core.now_ms() > expires_at)
    b = await inprocess.local("56001", hub.port)
    await linked(b)
    await until(lambda: not hub.engine.custody.rows_by_target)
    events = (await ask(await inprocess.client(b), "msg.trace", {"id": lk0}))["result"]["events"]
    assert [line["event"] for line in events][:1] == ["REJECTED"]
    client = await inprocess.client(await inprocess.start_node(settings))

    async def has_failed() -> list[dict[str, object]]:
        return list((await ask(client, "failed.list"))["result"]["rows"])

    (row,) = await until(has_failed)
    assert (row["lk0"], row["outcome"], row["reason"][0]) == (lk0, "REJECTED", Expired.code)
    assert (await ask(client, "msg.body", {"id": lk0}))["result"]["body_base64"] == "eA=="


def test_a_document_that_expires_late_is_seldom_checked() -> None:
    """One search a minute, not one every ``expiry_s``; almost none if no waiting document can expire."""
    trio = Trio(connected=False)
    searches: list[Work] = []
    post = trio.a.engine.core.post

    def counted(work: Work, **more: Any) -> None:
        if any(isinstance(query, ExpiredRows) for query in work.needs.queries):
            searches.append(work)
        post(work, **more)

    trio.a.engine.core.post = counted  # type: ignore[method-assign]
    now_ms = int(trio.time.wall().timestamp() * 1000)
    trio.a.send(b"late", expires_at=now_ms + 600_000)
    trio.later(590, step=1)
    assert len(searches) <= 14
    assert trio.a.lines(Event.VOIDED) == 0
    trio.later(15, step=1)
    assert trio.a.lines(Event.VOIDED) == 1
    seen = len(searches)
    trio.later(600, step=1)
    assert len(searches) <= seen + 3
