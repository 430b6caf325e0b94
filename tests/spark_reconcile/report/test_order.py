"""The order of a story: cause before effect, for any clocks."""

from random import Random

from semq.store.rows import Event, Side
from spark_reconcile.report.order import in_order
from tests.spark_reconcile.office import DIRECT, STORED

SIDES = {"S": Side.SENDER, "H": Side.HUB, "R": Side.RECEIVER}


def lines(course: str, off: dict[str, int]) -> list[dict[str, object]]:
    """Return the lines of a course in its order; ``off``: the clock error of each side."""
    made = []
    for seq, step in enumerate(course.split()):
        side, _, rest = step.partition(":")
        event, _, when = rest.partition("@")
        at = int(when.rstrip("c")) + off.get(side, 0)
        made.append(
            {"side": int(SIDES[side]), "event": int(Event[event]), "node": side, "store": "1.1", "seq": seq, "at": at}
        )
    return made


def ordered(course: str, off: dict[str, int]) -> list[tuple[object, object]]:
    made = lines(course, off)
    Random(1).shuffle(made)
    return [(line["side"], line["event"]) for line in in_order(made, lambda line: line["at"])]


def place(story: list[tuple[object, object]], side: Side, event: Event) -> int:
    return story.index((int(side), int(event)))


def test_with_right_clocks_a_story_is_in_the_order_of_time() -> None:
    for course in (DIRECT, STORED):
        assert ordered(course, {}) == [(line["side"], line["event"]) for line in lines(course, {})]


def test_a_wrong_clock_does_not_reverse_a_story() -> None:
    for course in (DIRECT, STORED):
        for off in ({"R": -1000}, {"R": 1000}, {"H": -1000}, {"H": 1000}, {"S": 900, "R": -900}):
            story = ordered(course, off)
            assert story[0] == (int(Side.SENDER), int(Event.ACCEPTED)), off
            assert place(story, Side.RECEIVER, Event.RECEIVED) < place(story, Side.SENDER, Event.DELIVERED)
            assert place(story, Side.SENDER, Event.DELIVERED) < place(story, Side.RECEIVER, Event.SENDER_ACKED)


def test_contradicting_ledgers_are_shown() -> None:
    story = lines("S:DELIVERED@10 S:ACCEPTED@20 R:RECEIVED@5 R:RECEIVED@5", {})
    assert len(in_order(story, lambda line: int(str(line["at"])))) == 4
    assert in_order([], lambda line: 0) == []
