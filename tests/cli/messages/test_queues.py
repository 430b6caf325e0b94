"""Counts of messages as a table."""

from semq.cli.messages.queues import count_rows


def test_a_queue_without_rows_is_shown_as_empty() -> None:
    counts = {"tb_0031": {"SS_SENT": 3, "NEWER": 1}, "tb_0030": {}, "tb_0030_ledger": 7}
    assert list(count_rows(counts)) == [
        ("tb_0031", "SS_SENT", "sent", 3),
        ("tb_0031", "NEWER", "", 1),
        ("tb_0030", "", "empty", 0),
        ("tb_0030_ledger", "", "", 7),
    ]
