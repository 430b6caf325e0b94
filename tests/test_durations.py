"""Durations as texts, in both languages."""

import pytest

from semq.durations import UNITS, classes, duration, longer
from semq.translations import CHOICES, used


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0, "0 s", "0 秒"),
        (0.086, "86 ms", "86 毫秒"),
        (0.9999, "999 ms", "999 毫秒"),
        (1.24, "1.2 s", "1.2 秒"),
        (9, "9 s", "9 秒"),
        (59.999, "59 s", "59 秒"),
        (61, "1 min 1 s", "1 分钟 1 秒"),
        (3600, "1 h", "1 小时"),
        (46_740, "12 h 59 min", "12 小时 59 分钟"),
        (86_460, "1 d", "1 天"),
        (90_000, "1 d 1 h", "1 天 1 小时"),
    ],
)
def test_durations_have_at_most_two_units_in_each_language(seconds: float, english: str, chinese: str) -> None:
    assert duration(seconds) == english
    with used("zh"):
        assert duration(seconds) == chinese


def test_every_language_has_all_units() -> None:
    assert UNITS.keys() == CHOICES.keys()
    assert len({tuple(words) for words in UNITS.values()}) == 1


def test_a_longer_duration_shows_that_it_is_longer() -> None:
    assert longer(86_461, 86_400) == "1 d 1 min"
    assert longer(90_000, 86_400) == "1 d 1 h"
    assert longer(86_400, 86_400) == "1 d"


def test_classes_of_durations_have_their_bound() -> None:
    assert classes((100, 900_000)) == ["≤ 100 ms", "≤ 15 min", "> 15 min"]
    with used("zh"):
        assert classes((86_400_000,)) == ["≤ 1 天", "> 1 天"]
