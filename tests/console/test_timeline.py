"""The time line of a message."""

from semq.answers.messages import TracedLine
from semq.console.timeline import GAP_S, outlook_line, time_line
from semq.translations import used

LINES: list[TracedLine] = [
    {"at": 1000, "side": "sender", "event": "ACCEPTED", "words": "accepted", "detail": "", "att": 0, "node": "1.10008"},
    {"at": 2000, "side": "hub", "event": "STORED", "words": "stored", "detail": "x", "att": 1, "node": "2.hub"},
    {"at": 2000 + GAP_S * 1000, "side": "receiver", "event": "RECEIVED", "words": "received", "proved": False},
]


def test_events_are_in_the_lanes_of_their_parties_with_pauses_between_them() -> None:
    line = time_line(str.upper, LINES)
    assert [moment.lane for moment in line] == ["sender", "hub", "receiver"]
    assert [moment.words for moment in line] == ["ACCEPTED", "STORED", "RECEIVED"]
    assert [moment.is_gap for moment in line] == [False, False, True]
    assert [moment.is_proved for moment in line] == [True, True, False]


def test_details_are_translated_but_for_texts_of_people() -> None:
    texts = ("", "copy 1.1.1099511627787", "the hub could not forward it", "seen by maria, copy of 1.1")
    lines: list[TracedLine] = [{"at": 1, "words": "w", "detail": text} for text in texts]
    chinese = {"copy %(lk1)s": "副本 %(lk1)s", "the hub could not forward it": "枢纽未能转发", "w": "w"}
    with used("zh"):
        details = [moment.detail for moment in time_line(lambda text: chinese.get(text, text), lines)]
    assert details == ["", "副本 1.1.1099511627787", "枢纽未能转发", f'<span lang="en">{texts[3]}</span>']


def test_the_next_event_is_in_the_lane_of_the_node_that_has_the_row() -> None:
    outlook = {"side": "inbound", "waits_for": "application", "asks_at": None}
    assert outlook_line(str, outlook, False).lane == "receiver"
    at_hub = outlook_line(str, {"side": "outbound", "waits_for": "ack2", "asks_at": 5}, True)
    assert (at_hub.lane, at_hub.at, at_hub.is_next, at_hub.is_inquiry) == ("hub", 5, True, True)
    scheduled = outlook_line(str, {"side": "outbound", "waits_for": "time", "asks_at": None}, False, 7)
    assert (scheduled.at, scheduled.is_inquiry) == (7, False)


def test_the_receipt_of_a_delivery_is_translated_and_its_time_has_the_form_of_the_page() -> None:
    detail = "receipt 7, entry 0, position 81, stated at 2026-11-30T07:55:06.855+00:00"
    (moment,) = time_line(lambda text: text, [{"at": 1, "side": "sender", "words": "", "detail": detail}])
    assert moment.detail.startswith("receipt 7, entry 0, position 81, stated at <time ")
    assert "2026-11-30 07:55:06.855 UTC</time>" in moment.detail
