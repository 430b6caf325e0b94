"""Tracks: sources of waiting rows take turns, the highest priority goes first, and no cursor passes a waiting row."""

from semq.engine.tracks import AGAIN_MAX, SOURCES_AT_ONCE, Pick, Tracks, level, shares


def first_picks(picks: list[list[Pick]]) -> list[tuple[str, int, int]]:
    """Return source, priority and limit of the first pick of each source."""
    return [(pick.track.source, pick.track.priority, pick.limit) for pick, *_ in picks]


def test_priorities_are_limited_to_ten_levels() -> None:
    assert [level(priority) for priority in (-1, 0, 1, 9, 10, 255)] == [0, 0, 1, 9, 9, 9]


def test_shares_are_equal_but_for_the_remainder() -> None:
    assert shares(["a", "b", "c"], 10) == [("a", 4), ("b", 3), ("c", 3)]
    assert shares(["a", "b", "c"], 2) == [("a", 1), ("b", 1)]
    assert shares([], 10) == []
    assert len(shares([str(n) for n in range(100)], 1000)) == SOURCES_AT_ONCE


def test_sources_take_turns_and_the_highest_priority_goes_first() -> None:
    tracks = Tracks()
    assert not tracks.has_ready
    assert not tracks.has_waiting
    tracks.wake("flood", 0)
    tracks.wake("flood", 9)
    tracks.wake("quiet", 3)
    assert first_picks(tracks.pick(1)) == [("flood", 9, 1)]
    assert first_picks(tracks.pick(1)) == [("quiet", 3, 1)]
    ((pick, second),) = tracks.pick(1)
    assert first_picks([[pick]]) == [("flood", 9, 1)]
    assert second.track.priority == 0
    tracks.note_read(pick, 7, found=False)  # all rows of that track are read
    assert first_picks(tracks.pick(4)) == [("quiet", 3, 2), ("flood", 0, 2)]


def test_a_row_returned_during_a_read_is_not_skipped() -> None:
    tracks = Tracks()
    tracks.wake("a", 0)
    ((pick,),) = tracks.pick(10)
    tracks.wake("a", 0, 4)
    tracks.note_read(pick, 8, found=False)
    ((again,),) = tracks.pick(10)
    assert again.after == 3
    tracks.note_read(again, 20, found=True)
    ((last,),) = tracks.pick(10)
    assert last.after == 20
    tracks.note_read(last, 20, found=False)
    assert not tracks.has_waiting


def test_a_row_refused_alone_is_passed_over_at_once_or_after_a_few_passing_faults() -> None:
    tracks = Tracks()
    tracks.wake("a", 0)
    ((pick,),) = tracks.pick(2)
    tracks.after_refusal([(pick, 4), (pick, 5)], is_passing=True)
    assert [tracks.limited(10) for _ in range(3)] == [1, 1, 10]
    for _ in range(AGAIN_MAX):  # a deadlock, for instance
        tracks.after_refusal([(pick, 4)], is_passing=True)
        assert (tracks.limited(10), pick.track.cursor) == (1, 0)
    tracks.note_read(pick, 4, found=True)  # the row was taken, so the next one may fail as often
    for _ in range(AGAIN_MAX):
        tracks.after_refusal([(pick, 5)], is_passing=True)
    assert pick.track.cursor == 4
    tracks.after_refusal([(pick, 5)], is_passing=True)
    assert pick.track.cursor == 5
    tracks.after_refusal([(pick, 6)], is_passing=False)
    assert pick.track.cursor == 6


def test_a_track_beyond_the_window_delays_no_other() -> None:
    tracks = Tracks()
    tracks.wake("", 9)
    tracks.wake("", 0)
    ((pick, _),) = tracks.pick(10)
    tracks.note_read(pick, 5, found=True, blocked=True)
    ((low,),) = tracks.pick(10)
    assert low.track.priority == 0
    tracks.note_read(low, 9, found=False)
    assert tracks.has_waiting
    assert not tracks.has_ready
    tracks.wake("", 9)  # after the blocked row
    assert not tracks.has_ready
    tracks.unblock()
    assert first_picks(tracks.pick(10)) == [("", 9, 10)]
    tracks.note_read(tracks.pick(10)[0][0], 6, found=True, blocked=True)
    tracks.wake("", 9, 2)  # before the blocked row
    assert first_picks(tracks.pick(10)) == [("", 9, 10)]
    tracks.wake_all(1)
    assert tracks.pick(10)[0][0].after == 0
