"""kill -9, repeatedly, with a real client: confirmed messages are there once, in order; redeliveries are flagged."""

from pathlib import Path

from tests.depth import deeper
from tests.interop.kills import kill_repeatedly


def test_a_repeatedly_killed_node_loses_nothing(tmp_path: Path) -> None:
    book = kill_repeatedly(tmp_path, kills=3, seed=7, gap_max=deeper(200, 500))
    assert book.complaints == []
    assert all(book.confirmed.values())
    assert book.acked
    assert book.committed
