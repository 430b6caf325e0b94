"""Errors in the language of a page."""

from collections.abc import Iterator
from functools import partial

import pytest

from semq.app.errors import RefusedByNode
from semq.engine.errors import NotThere, UnknownTarget
from semq.errors import BadInput
from semq.foreign_text import SHOWN_MAX
from semq.translations import Languages, used
from semq.web.errors import BadRequest
from semq.web.pages import error_words
from tests.console.texts import WEB

_ = Languages([WEB / "translations"]).gettext
words_of, in_words = partial(error_words.words_of, _), partial(error_words.in_words, _)
REFUSED = UnknownTarget(target="1.56001", known=["1.10008", "1.10009"])


@pytest.fixture
def chinese() -> Iterator[None]:
    with used("zh"):
        yield


@pytest.mark.usefixtures("chinese")
def test_an_error_of_the_node_has_sentence_and_remedy_of_its_code_and_its_exact_text() -> None:
    facts = {"target": "1.56001", "known": None}
    of_node = RefusedByNode({"code": "SEMQ-1201", "text": "Reads otherwise.", "remedy": "Do that.", "facts": facts})
    words = words_of(of_node)
    assert words.sentence == "枢纽没有这个机构，或它不是本机构的伙伴。"
    assert "`semq definitions import`" in words.remedy
    assert words.facts == {"target": "1.56001", "known": "none"}
    assert words.exact == "SEMQ-1201 Reads otherwise. (target='1.56001' known=none) — Do that."


@pytest.mark.usefixtures("chinese")
def test_the_text_and_the_remedy_of_a_single_error_are_preferred_to_those_of_its_code() -> None:
    words = words_of(NotThere("The document has not failed.").with_remedy("`semq msg show` shows it."))
    assert (words.sentence, words.remedy) == ("该单据没有失败。", "`semq msg show` 显示它。")
    assert words_of(BadRequest("The form cannot be read.")).sentence == "无法读取表单。"


@pytest.mark.usefixtures("chinese")
def test_the_exact_text_is_one_line_of_limited_length() -> None:
    exact = words_of(BadRequest(f"\u202e\n{'x' * SHOWN_MAX}")).exact
    assert exact.startswith(r"SEMQ-1404 \u202e\nxxx")
    assert len(exact) < SHOWN_MAX + 100


@pytest.mark.usefixtures("chinese")
def test_an_error_of_a_newer_node_is_shown_as_it_is() -> None:
    words = words_of(RefusedByNode({"code": "SEMQ-1999", "text": "It is new.", "remedy": "Wait for it."}))
    assert (words.sentence, words.remedy, words.exact) == ("It is new.", "Wait for it.", "")
    assert in_words("SEMQ-1999 It is new.") == '<span lang="en">SEMQ-1999 It is new.</span>'


def test_an_english_page_shows_an_error_once() -> None:
    words = words_of(REFUSED)
    assert (words.sentence, words.remedy, words.exact) == (REFUSED.text, REFUSED.remedy, "")
    assert in_words(f"x <y>: {BadInput.code} z") == "x &lt;y&gt;: <code>SEMQ-1001</code> z"
    assert in_words("a" * 50, 10) == "aaaaaaaaa…"
    assert in_words(None) == ""


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("text", "before", "remedy"),
    [
        (str(REFUSED), "", False),
        (f"1.56001: {REFUSED.advice()}", "1.56001: ", True),
        (f"PRECONDITION_FAILED - {REFUSED}", "", False),  # the exact text has it
        (str(UnknownTarget("Reads otherwise.")), "", False),
        (f"{str(REFUSED)[:90]}…", "", False),
    ],
)
def test_the_text_of_a_stored_error_is_looked_up_by_its_code(text: str, before: str, remedy: bool) -> None:
    html = in_words(text)
    assert html.startswith(f"{before}<code>SEMQ-1201</code> 枢纽没有这个机构，或它不是本机构的伙伴。")
    assert error_words.exact_text(_, text) in html
    assert ("请检查目标的编号" in html) is remedy


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(("act", "words"), [("held", "扣留"), ("to be sent again", "将再次发送")])
def test_acts_in_the_ledger_are_translated_with_reason_and_person(act: str, words: str) -> None:
    assert in_words(f"{act}: 原因 (by maria via guest)") == f"{words}：原因（由 maria via guest 操作）"
    assert in_words(f"{act}: by guest") == f"{words}：由 guest 操作"


@pytest.mark.usefixtures("chinese")
def test_other_texts_are_marked_as_english_if_they_seem_to_be() -> None:
    assert in_words("Connection reset by <peer>") == '<span lang="en">Connection reset by &lt;peer&gt;</span>'
    assert in_words("读不了") == "读不了"
    assert in_words("a" * 50, 10) == "aaaaaaaaa…"
    assert in_words("SEMQ-1401") == "<code>SEMQ-1401</code> 此用户或令牌无权执行此操作。"
    assert error_words.exact_text(_, "not allowed: SEMQ-1401") in in_words("not allowed: SEMQ-1401")
