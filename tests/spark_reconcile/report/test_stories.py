"""Stories: an unreadable line is shown with the reason why it cannot be read."""

from typing import Any

import pytest

from semq.store.rows import Event, Side
from spark_reconcile.report.stories import unreadable
from tests.spark_reconcile.office import HUB, MIDNIGHT

LK0 = "1.a.1.1.3f.7"
LINE: dict[str, Any] = {"at": MIDNIGHT, "outside": False, "side": 1, "event": 1, "node": "1.a", "seq": 4, "att": 0}


@pytest.mark.parametrize(
    ("lk0", "fields", "words"),
    [
        (LK0, {}, ""),
        (LK0, {"side": 2, "node": HUB, "event": Event.STORED}, ""),
        (LK0, {"node": "1.b", "event": Event.VIOLATION}, ""),  # lines of violations may be in any ledger
        (LK0, {"side": 4}, "no such side or event"),
        (LK0, {"side": None}, "no such side or event"),
        (LK0, {"event": 17}, "no such side or event"),
        (LK0, {"event": None}, "no such side or event"),
        ("?1.a.1.1.4", {}, "it names no message"),
        (LK0, {"seq": None}, "it has no number"),
        (LK0, {"event": Event.RECEIVED}, "a sender writes no such line"),
        (LK0, {"node": "1.b", "event": Event.DELIVERED}, "it is in the ledger of another node than its sender's"),
        (LK0, {"side": Side.HUB, "event": Event.STORED}, "it is in the ledger of a node that is not a hub"),
    ],
)
def test_an_unreadable_line_has_a_reason(lk0: str, fields: dict[str, Any], words: str) -> None:
    assert unreadable({**LINE, **fields}, lk0, {HUB}) == (words and f"unreadable: {words}")
