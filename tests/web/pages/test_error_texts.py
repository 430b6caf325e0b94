"""Texts of single errors that contain values."""

from semq.web.pages.error_texts import LENGTH_MAX, NESTED_MAX, WITH_VALUES, pattern_of, translation
from tests.console.texts import errors_with_values


def test_every_text_of_an_error_with_values_has_one_pattern() -> None:
    fitting = {
        source: [words for words in WITH_VALUES if pattern_of(words).fullmatch(example)]
        for source, example in errors_with_values()
    }
    assert {source: words for source, words in fitting.items() if len(words) != 1} == {}
    assert {*WITH_VALUES} - {words for [words] in fitting.values()} == set()


def test_values_are_translated_unless_they_are_of_others() -> None:
    chinese = {
        "%(part)s names %(node)s, which is not an institution of this hub.": "%(part)s 所指的 %(node)s",
        "Agreement %(number)s": "协定 %(number)s",
        "The argument %(argument)s of %(operation)s is wrong: %(fault)s.": "%(operation)s %(argument)s %(fault)s",
        "Expected %(type)s <= %(most)s": "不大于 %(most)s 的 %(type)s",
    }

    def words(text: str) -> str:
        return translation(lambda text: chinese.get(text, text), text)

    assert words("Agreement 2 names '9', which is not an institution of this hub.") == "协定 2 所指的 '9'"
    assert words("The argument limit of msg.list is wrong: Expected int <= 7.") == "msg.list limit 不大于 7 的 int"
    unknown = "The argument limit of msg.list is wrong: it is odd."
    assert words(unknown) == unknown
    assert words("Other text.") == "Other text."


def test_a_person_at_the_console_is_one_value_and_texts_in_many_texts_stay() -> None:
    chinese = {"refused at the hub by %(user)s: %(why)s": "%(user)s 在枢纽拒绝：%(why)s", "none": "无"}

    def words(text: str) -> str:
        return translation(lambda text: chinese.get(text, text), text)

    assert words("refused at the hub by maria via guest: a via b: c") == "maria via guest 在枢纽拒绝：a via b: c"
    assert words("refused at the hub by guest: none") == "guest 在枢纽拒绝：无"
    assert words("refused at the hub by a: " * NESTED_MAX + "none").endswith("：无")
    deep = "refused at the hub by a: none"
    assert words("refused at the hub by a: " * NESTED_MAX + deep).endswith(f"：{deep}")
    assert words(f"refused at the hub by a: {'b' * LENGTH_MAX}").startswith("refused")
