"""The chain of the ledger."""

from hypothesis import given
from hypothesis import strategies as st

from semq.seal.chain import START, ChainLink, add, begin

LINES = st.lists(st.binary(max_size=5), min_size=1, max_size=6)


def chained(lines: list[bytes], **facts: object) -> ChainLink:
    arguments = {"store": "store", "day": "2031-03-01", "place": 1, "first": 7, "before": START} | facts
    return add(begin(**arguments), enumerate(lines, start=7))  # type: ignore[arg-type]


def test_a_link_grows_line_by_line() -> None:
    link = chained([b"one", b"two"])
    assert (link.first, link.last, link.count) == (7, 8, 2)
    assert link.before == START


@given(LINES, LINES)
def test_other_lines_give_another_hash(first: list[bytes], second: list[bytes]) -> None:
    assert (chained(first).hash == chained(second).hash) == (first == second)


def test_the_order_of_lines_changes_the_hash() -> None:
    assert chained([b"one", b"two"]).hash != chained([b"two", b"one"]).hash


def test_the_hash_of_a_link_covers_all_its_inputs() -> None:
    changes: tuple[dict[str, object], ...] = (
        {},
        {"store": "other"},
        {"day": "2031-03-02"},
        {"place": 2},
        {"first": 8},
        {"before": bytes([1] * 32)},
    )
    assert len({chained([b"line"], **change).hash for change in changes}) == len(changes)
