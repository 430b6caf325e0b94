"""The page of the hub's definitions."""

from semq.console.pages.definitions import _difference


def test_a_comparison_shows_all_changed_lines_and_no_headers() -> None:
    before, after = "a\nb\n-- old\nc\n", "a\nb\n++ new\nc\n"
    assert _difference(before, after) == [
        ("same", " a"), ("same", " b"), ("removed", "--- old"), ("added", "+++ new"), ("same", " c")
    ]  # fmt: skip
    assert _difference(before, before) == []
