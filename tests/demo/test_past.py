"""The made-up figures of a demo that stays."""

from collections import Counter
from datetime import UTC, datetime

from semq.demo.past import figures_of
from semq.store.figures import HOUR, MINUTE
from semq.store.rows import Event

NOW = datetime(2026, 11, 20, 9, 30, 12, tzinfo=UTC)
PAIRS = [("10008", "56001"), ("56001", "10008")]


def test_all_documents_of_an_institution_are_delivered_and_its_partner_has_processed_them() -> None:
    counts = Counter[Event]()
    for node in ("10008", "56001"):
        for row in figures_of(node, PAIRS, NOW):
            if row.minutes == HOUR and (row.source, row.target) == ("1.10008", ""):
                counts[row.event] += row.documents
    assert set(counts) == {Event.ACCEPTED, Event.DELIVERED, Event.RECEIVED, Event.DONE}
    assert len(set(counts.values())) == 1


def test_the_figures_end_before_the_hour_and_the_minute_of_the_demo_and_none_is_of_a_day() -> None:
    rows = list(figures_of("hub", PAIRS, NOW))
    assert {row.minutes for row in rows} == {MINUTE, HOUR}
    for minutes, last in ((HOUR, NOW.replace(hour=8, minute=0, second=0)), (MINUTE, NOW.replace(minute=29, second=0))):
        assert max(row.at for row in rows if row.minutes == minutes) == last
    assert sum(row.documents for row in rows if (row.source, row.target) == ("", "")) > 10_000
