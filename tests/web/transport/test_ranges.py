"""Ranges of bytes in requests: answered, ignored, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from semq.web.errors import RangeNotSatisfiable
from semq.web.transport.ranges import ByteRange, Extent, entity_tag, if_range_holds

SIZE = 1000


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, SIZE),
        ("bytes=999-", 999, SIZE),
        ("bytes=500-599", 500, 600),
        ("bytes=500-99999999999999999999999999999999", 500, SIZE),
        ("bytes=-1", 999, SIZE),
        ("bytes=-5000", 0, SIZE),
        ("BYTES= 1-2 ,", 1, 3),
    ],
)
def test_a_range_of_bytes_is_cut_to_the_body(text: str, begin: int, end: int) -> None:
    wanted = ByteRange.read(text)
    assert wanted is not None
    assert wanted.within(SIZE) == Extent(begin, end)


@pytest.mark.parametrize(
    "text",
    [
        "", "bytes", "bytes=", "bytes=-", "bytes=2-1", "bytes=a-b", "bytes=0-1,5-6", "bytes 0-1", "lines=0-1",
        "bytes=0x1-2", "bytes=+1-2", "bytes=1", "bytes=١-٢", f"bytes={'9' * 5000}-",
    ],
)  # fmt: skip
def test_several_ranges_and_unreadable_ones_are_ignored(text: str) -> None:
    assert ByteRange.read(text) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("bytes=1000-", 1000), ("bytes=-0", 1000), ("bytes=0-", 0), ("bytes=-1", 0), (f"bytes={'9' * 40}-", 1000)],
)
def test_a_range_without_a_byte_of_the_body_is_refused(text: str, size: int) -> None:
    wanted = ByteRange.read(text)
    assert wanted is not None
    with pytest.raises(RangeNotSatisfiable) as refused:
        wanted.within(size)
    assert refused.value.facts == {"size": size}


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 40))
def test_the_expected_bytes_begin_with_the_range_and_include_it(first: int, length: int, size: int) -> None:
    wanted = ByteRange.read(f"bytes={first}-{first + length}")
    assert wanted is not None
    if first < size:
        begin, end = wanted.within(size)
        assert wanted.expected.begin == begin
        assert begin < end <= min(wanted.expected.end, size)
        assert end - begin == len(bytes(size)[first : first + length + 1])


@pytest.mark.parametrize(
    ("condition", "digest", "is_true"),
    [
        (None, "", True), (None, "ab", True), ('"ab"', "ab", True), ('"cd"', "ab", False), ('W/"ab"', "ab", False),
        ("", "", False), ('""', "", False),
    ],
)  # fmt: skip
def test_if_range_holds_if_it_is_absent_or_has_the_same_strong_tag(
    condition: str | None, digest: str, is_true: bool
) -> None:
    headers = [] if condition is None else [(b"if-range", condition.encode())]
    assert if_range_holds(Request({"type": "http", "headers": headers}), entity_tag(digest)) is is_true
