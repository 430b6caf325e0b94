"""Counts of messages as a table."""

from semq.cli.messages.queues import count_rows


def test_a_queue_without_rows_is_shown_as_empty() -> None:
    pieces = {"outbound": {"rows": 7, "bytes": 1}, "inbound": {"rows": 0, "bytes": 0}}
    counts = {"sent": {"SS_SENT": 3, "NEWER": 1}, "received": {}, "submitted": {"waiting": 0}, "pieces": pieces}
    assert list(count_rows(counts)) == [
        ("sent", "SS_SENT", "sent", 3),
        ("sent", "NEWER", "", 1),
        ("received", "", "empty", 0),
        ("submitted", "", "empty", 0),
        ("pieces", "outbound", "", 7),
    ]
