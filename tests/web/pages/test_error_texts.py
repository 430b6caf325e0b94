"""Texts of single errors that contain values."""

from semq.web.pages.error_texts import WITH_VALUES, pattern_of, translation
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
        "Agreement %(number)s": "协议 %(number)s",
        "The argument %(argument)s of %(operation)s is wrong: %(fault)s.": "%(operation)s %(argument)s %(fault)s",
        "Expected %(type)s <= %(most)s": "不大于 %(most)s 的 %(type)s",
    }

    def words(text: str) -> str:
        return translation(lambda text: chinese.get(text, text), text)

    assert words("Agreement 2 names '9', which is not an institution of this hub.") == "协议 2 所指的 '9'"
    assert words("The argument limit of msg.list is wrong: Expected int <= 7.") == "msg.list limit 不大于 7 的 int"
    unknown = "The argument limit of msg.list is wrong: it is odd."
    assert words(unknown) == unknown
    assert words("Other text.") == "Other text."
