"""Words of the report: for every event and state of a message, for clocks and for shares."""

import pytest

from semq.store.rows import Event, Side
from spark_reconcile.extracts.events import EVENTS_OF
from spark_reconcile.judgement.situation import HUBS, RECEIVERS, SENDERS
from spark_reconcile.report.words import (
    STATE_WORDS,
    age,
    app_key_type,
    event_words,
    off_by,
    percent,
    side_word,
    state_words,
)  # fmt: skip


def test_every_line_that_can_be_written_has_words() -> None:
    for side, events in EVENTS_OF.items():
        for event in events:
            words = event_words(side, event)
            assert words
            assert "unreadable" not in words
    assert event_words(Side.HUB, Event.STORED) != event_words(Side.SENDER, Event.STORED)
    assert event_words(7, 99) == "unreadable: side 7, event 99"
    assert (side_word(2), side_word(9), side_word(None)) == ("hub", "?", "?")


def test_every_state_of_a_message_has_a_text() -> None:
    assert {side: set(texts) for side, texts in STATE_WORDS.items()} == {
        "sender": set(SENDERS),
        "hub": set(HUBS),
        "receiver": set(RECEIVERS),
    }
    assert state_words("hub", "none") == "has no line"
    assert state_words("sender", "missing") == "delivered no ledger of that time"  # not: "The sender was not delivered"


def test_business_keys_are_shown_as_far_as_disclosed() -> None:
    assert app_key_type({"app_domain": "trade", "app_type": "order", "app_subtype": None}) == "trade/order/"
    assert app_key_type({"app_domain": None, "app_type": "", "app_subtype": None}) == app_key_type({}) == ""


@pytest.mark.parametrize(
    ("ms", "words"),
    [(86, "86 ms"), (1_240, "1.2 s"), (61_000, "1 min 1 s"), (3_599_990, "1 h"), (10_600, "11 s")],
)
def test_the_error_of_a_clock_is_rounded(ms: int, words: str) -> None:
    assert (off_by(ms), off_by(-ms)) == (f"fast by {words}", f"slow by {words}")


def test_an_unknown_age_has_no_words() -> None:
    assert (age(None), age(61_000)) == ("", "1 min 1 s")


@pytest.mark.parametrize(
    ("part", "of", "words"),
    [
        (0, 0, ""),
        (0, 7, "0.0 %"),
        (1, 3, "33.3 %"),
        (21, 50_000, "0.042 %"),
        (1, 10_000_000, "< 0.001 %"),
        (30_363, 30_367, "99.99 %"),
        (99_999, 100_000, "99.999 %"),
        (9_999_999, 10_000_000, "> 99.999 %"),
        (7, 7, "100.0 %"),
    ],
)
def test_only_exact_shares_are_shown_as_0_or_100_percent(part: int, of: int, words: str) -> None:
    assert percent(part, of) == words
