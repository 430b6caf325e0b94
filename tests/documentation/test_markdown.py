"""Lists of documents, as the site's parser needs them."""

from documentation.markdown import for_the_site


def test_a_list_after_a_paragraph_begins_after_an_empty_line() -> None:
    assert for_the_site("text:\n- one\n- two\n") == "text:\n\n- one\n- two\n"


def test_the_rest_of_an_item_is_moved_to_four_spaces() -> None:
    given = "1. one\n   more\n\n   - inner\n     its rest\n2. two\n\nafter\n"
    assert for_the_site(given) == "1. one\n    more\n\n    - inner\n        its rest\n2. two\n\nafter\n"


def test_code_is_not_a_list() -> None:
    text = "```\n- one\n  2. two\n```\n\n    - indented\n"
    assert for_the_site(text) == text


def test_code_after_a_list_keeps_its_characters_and_code_in_an_item_is_moved() -> None:
    assert for_the_site("1. one\n\n```\ncode\n```\n") == "1. one\n\n```\ncode\n```\n"
    assert for_the_site("1. one\n   ```\n   code\n   ```\n") == "1. one\n    ```\n    code\n    ```\n"
