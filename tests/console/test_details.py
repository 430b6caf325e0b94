"""Details of checks, terms and changes in the language of a page."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from platform_node.definitions import Agreement, HubDefinitions, Institution, changes
from semq.console.details import detail_words
from semq.foreign_text import SHOWN_MAX
from semq.service.monitoring.health import DRAINED, REVOKED
from semq.translations import Languages, used
from semq.transport.errors import DialFailed
from semq.umx_t.agreement import Terms, agreed_text
from tests.console.english import unmarked_sentences
from tests.console.texts import CONSOLE, WEB
from tests.service.monitoring.test_health import VIOLATIONS, checks, with_datagram_loss, with_datagram_path

words = partial(detail_words, Languages([CONSOLE / "translations", WEB / "translations"]).gettext)
LOST = str(DialFailed(host="hub", cause="nobody listens; port: closed for now"))


@pytest.fixture
def chinese() -> Iterator[None]:
    with used("zh"):
        yield


def failing() -> Iterator[dict[str, Any]]:
    """Yield states of nodes in which every check fails, in each of its ways."""
    ago = 1_790_000_000_000
    section = {"failures": 7, "since": ago, "error": LOST, "is_paused": False}
    paused = section | {"failures": 1, "is_paused": True}
    yield with_datagram_path() | {
        "drained": True, "violations": VIOLATIONS, "extract": {"exit_status": 9, "at": "", "output": LOST},
        "companions": {
            "folders": {"running": True, "failing": {"erp": section, "out": paused}},
            "webhooks": {"running": False, "exit": 78, "failing": {}}, "http": {"running": False, "failing": {}},
        },
        "certificates": {"1.56001": 3.5, "1.56002": 4.0}, "direct": {"1.56001": {"link": "down", "last_error": LOST}},
        "telemetry": {"failures": 3, "failing_since": ago, "dropped": 5, "last_error": LOST},
        "refused_rows": [{"rule": "r", "sqlstate": "23514", "count": 1, "last": ago, "text": "new row is refused"}],
        "failing_jobs": {"housekeeping": LOST, "extract": LOST},
        "database": [f"{LOST} — Do this.", "the node waits for a lock of psql (process 7 of the server)"],
        "credential_files": [
            {"setting": "amqp.key", "fault": "the file is empty", "file": "/k", "days_left": None},
            {"setting": "amqp.certificate", "fault": "", "file": "/c", "days_left": 2.0, "not_after": "2031-01-01"},
        ],
        "sql_submissions": {"refused": 2}, "sql_waiting": {"1.56001": LOST}, "shortage": "low on memory",
        "partners": {"1.56001": {"online": True, "quota_reached": True}},
        "certificate": {"state": "ending", "days_left": 1.5, "renew_at": "2031-01-01", "fault": LOST},
        "hub": {"link": "down", "last_error": LOST}, "missing": {"count": 4, "unanswered": 2},
    }  # fmt: skip
    yield with_datagram_loss("there", 500, 100, 50) | {"store_open": False, "hub": {"link": "down", "last_error": ""}}
    yield with_datagram_loss("here", 500, 100) | {"direct": {"1.56001": {"link": "down", "last_error": ""}}}


def checks_of_failing_nodes() -> list[dict[str, Any]]:
    return [
        {"check": check.name, "verdict": check.verdict, "detail": check.detail}
        for status in failing()
        for check in checks(status)
    ]


@pytest.mark.usefixtures("chinese")
def test_no_detail_of_a_failing_check_is_an_english_sentence_on_a_chinese_page() -> None:
    for status in failing():
        for check in checks(status):
            html = words(check.detail)
            assert unmarked_sentences(html) == [], check.detail
            assert ("<details" in html) == (LOST in check.detail), html
            assert LOST not in check.detail or "nobody listens; port: closed for now" in html


@pytest.mark.usefixtures("chinese")
def test_values_in_details_are_translated_too() -> None:
    assert words("90.0 days left, renewal at 2027-01-31") == "剩余 90.0 天，续期时间 2027-01-31"
    assert words("1.56001: the partner has not dialled") == "1.56001：伙伴尚未拨号"
    assert (
        words("publishers wait: low on memory; 2 more in node.status")
        == "发布者在等待：内存不足；另有 2 项见 node.status"
    )
    assert words("[Errno 111] 100 % <refused>") == "[Errno 111] 100 % &lt;refused&gt;"
    submissions = (
        "documents submitted by SQL were refused (2): `semq failed list`, documents submitted by SQL for 1.2 wait: x"
    )
    assert words(submissions).count("通过 SQL 提交") == 2
    assert words("erp: 1 failure since 2027, paused: low on memory") == "erp：自 2027 起失败 1 次，已暂停：内存不足"
    assert words("the port is in use") == '<span lang="en">the port is in use</span>'
    assert "lang" not in words(DRAINED) + words(REVOKED)


@pytest.mark.usefixtures("chinese")
def test_a_detail_with_any_number_of_texts_in_texts_is_shown() -> None:
    assert words("a: " * SHOWN_MAX).startswith("a：a：")


@pytest.mark.usefixtures("chinese")
def test_terms_of_agreements_and_changes_of_definitions_are_translated() -> None:
    terms = Terms(types=("order", "trade/invoice"), bytes_max=1000, per_minute=60, waiting_max=5, encrypt=True)
    assert words(agreed_text(terms)) == "order, trade/invoice；每分钟 60 份；至多 1000 字节；至多 5 份等待；密封"
    to_56001, to_77001 = (Agreement(from_=("10008",), to=(node,)) for node in ("56001", "77001"))
    before = HubDefinitions(nodes={"10008": Institution(users=("a",))}, agreements=(to_56001, to_77001))
    after = HubDefinitions(nodes={"77001": Institution()}, agreements=(to_77001, to_56001))
    compared = [(before, after), (before, HubDefinitions()), (HubDefinitions(), after)]
    for pair in compared:
        for change in changes(*pair, ["10008", "77001"]):
            assert unmarked_sentences(words(change)) == []
            assert "lang" not in words(change), change


def test_english_details_are_shown_as_they_are() -> None:
    assert words(DRAINED) == DRAINED
    assert words("x <b>: SEMQ-1207 y") == "x &lt;b&gt;: <code>SEMQ-1207</code> y"
