"""Schedules that broke the order of documents once; found by killing real processes."""

from semq.umx_t.envelope import Frame
from tests.flows.trio import Trio, TrioWire, is_message


def test_the_one_before_is_recorded_while_the_next_is_being_looked_at() -> None:
    """Of two documents of one order key the second arrives first and waits. The first is recorded in the same unit of
    work in which the second is looked at again: it counts as recorded, yet no query shows its row."""
    trio = Trio()
    late: list[tuple[TrioWire, Frame]] = []

    def keep_first(wire: TrioWire, frame: Frame) -> bool:
        if is_message(frame) and not late:
            late.append((wire, frame))
            return True
        return False

    trio.lose = keep_first
    trio.a.send(b"1", order_key="k")
    trio.a.send(b"2", order_key="k")
    trio.settle()
    assert trio.b.app.payloads == []
    ((_, first),) = late
    b = trio.b
    assert b.up is not None
    b.engine.handing.feed("")  # a consumer has become free: which one is next?
    b.store.begin()
    b.engine.hear(b.up, [first])  # its row is queued before the second look at the other one
    b.store.commit()
    b.store.deliver()
    trio.settle()
    assert b.app.payloads == [b"1", b"2"]
    trio.later(60)
    assert trio.is_clean()
