"""The chain of the ledger: one link after the other, over everything that a link says."""

from semq.seal.chain import START, link, link_hash


def test_links_follow_each_other_through_the_days() -> None:
    first = link("store", "2031-03-01", None, b"lines", 1, 3, 3)
    second = link("store", "2031-03-01", first, b"more", 4, 4, 1)
    third = link("store", "2031-03-02", second, b"more", 5, 5, 1)
    assert [each.place for each in (first, second, third)] == [1, 2, 1]
    assert first.before == START
    assert second.before == first.hash
    assert third.before == second.hash
    assert len({first.hash, second.hash, third.hash}) == 3


def test_everything_that_a_link_says_is_in_its_hash() -> None:
    hashes = {
        link_hash(*facts)
        for facts in (
            ("store", "day", 1, 1, 3, 3, START, b"lines"),
            ("other", "day", 1, 1, 3, 3, START, b"lines"),
            ("store", "yad", 1, 1, 3, 3, START, b"lines"),
            ("store", "day", 2, 1, 3, 3, START, b"lines"),
            ("store", "day", 1, 2, 3, 3, START, b"lines"),
            ("store", "day", 1, 1, 4, 3, START, b"lines"),
            ("store", "day", 1, 1, 3, 4, START, b"lines"),
            ("store", "day", 1, 1, 3, 3, bytes([1] * 32), b"lines"),
            ("store", "day", 1, 1, 3, 3, START, b"line"),
        )
    }
    assert len(hashes) == 9
