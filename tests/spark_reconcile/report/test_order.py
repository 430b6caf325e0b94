"""The order of a story: cause before effect, for any clocks."""

from random import Random

from semq.store.rows import Event, Side
from spark_reconcile.report.order import in_order
from tests.spark_reconcile.office import FORWARD_COURSE, STORE_COURSE

SIDES = {"S": Side.SENDER, "H": Side.HUB, "R": Side.RECEIVER}


def lines(course: str, errors: dict[str, int]) -> list[dict[str, object]]:
    """Return the lines of a course in its order; ``errors``: milliseconds by which the clock of a side is fast."""
    story = []
    for seq, step in enumerate(course.split()):
        side, _, event_and_time = step.partition(":")
        event, _, time = event_and_time.partition("@")
        at = int(time.rstrip("c")) + errors.get(side, 0)
        story.append(
            {"side": int(SIDES[side]), "event": int(Event[event]), "node": side, "store": "1.1", "seq": seq, "at": at}
        )
    return story


def ordered(course: str, errors: dict[str, int]) -> list[tuple[object, object]]:
    """Shuffle the lines of a course; return sides and events in the order of the story."""
    shuffled = lines(course, errors)
    Random(1).shuffle(shuffled)
    return [(line["side"], line["event"]) for line in in_order(shuffled, lambda line: line["at"])]


def position(story: list[tuple[object, object]], side: Side, event: Event) -> int:
    return story.index((int(side), int(event)))


def test_with_right_clocks_a_story_is_in_the_order_of_time() -> None:
    for course in (FORWARD_COURSE, STORE_COURSE):
        assert ordered(course, {}) == [(line["side"], line["event"]) for line in lines(course, {})]


def test_a_wrong_clock_does_not_reverse_a_story() -> None:
    for course in (FORWARD_COURSE, STORE_COURSE):
        for errors in ({"R": -1000}, {"R": 1000}, {"H": -1000}, {"H": 1000}, {"S": 900, "R": -900}):
            story = ordered(course, errors)
            assert story[0] == (int(Side.SENDER), int(Event.ACCEPTED)), errors
            assert position(story, Side.RECEIVER, Event.RECEIVED) < position(story, Side.SENDER, Event.DELIVERED)
            assert position(story, Side.SENDER, Event.DELIVERED) < position(story, Side.RECEIVER, Event.SENDER_ACKED)


def test_every_line_of_contradicting_ledgers_is_shown() -> None:
    story = lines("S:DELIVERED@10 S:ACCEPTED@20 R:RECEIVED@5 R:RECEIVED@5", {})
    assert len(in_order(story, lambda line: int(str(line["at"])))) == 4
    assert in_order([], lambda line: 0) == []
