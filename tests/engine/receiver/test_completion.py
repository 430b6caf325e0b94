"""Numbers of finished documents: each is taken soon, also one written while others are read."""

import pytest

from tests.flows.trio import Trio


def test_a_number_committed_after_a_read_began_is_taken_without_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    trio.b.app.acks = False
    trio.a.send(b"x")
    trio.settle()
    [delivery] = trio.b.app.held
    taking = trio.b.engine.completions
    ended = taking._ended

    def ended_with_none(found: int) -> None:
        monkeypatch.undo()
        trio.b.store.tables.done[delivery.bref] = None
        taking.poll()  # its NOTIFY
        ended(found)

    monkeypatch.setattr(taking, "_ended", ended_with_none)
    taking.poll()
    trio.settle()
    assert trio.b.store.tables.done == {}
