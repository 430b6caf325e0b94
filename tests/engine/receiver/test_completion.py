"""Documents finished by SQL."""

import pytest

from tests.flows.trio import Trio


def test_a_number_committed_after_a_read_began_is_processed_without_the_next_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trio = Trio()
    trio.b.app.acks = False
    trio.a.send(b"x")
    trio.settle()
    [delivery] = trio.b.app.held
    completions = trio.b.engine.completions
    ended = completions._ended

    def ended_with_none(*, is_full: bool = False) -> None:
        monkeypatch.undo()
        trio.b.store.tables.done[delivery.bref] = None
        completions.poll()  # as the NOTIFY of that number does
        ended(is_full=is_full)

    monkeypatch.setattr(completions, "_ended", ended_with_none)
    completions.poll()
    trio.settle()
    assert trio.b.store.tables.done == {}
