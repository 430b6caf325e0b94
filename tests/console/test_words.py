"""The texts of the console and their translations."""

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from semq.answers.status import AmqpFigures, WriterCounters
from semq.console.charts import DOCUMENTS
from semq.console.pages.messages import OUTCOMES
from semq.console.words import ACTS_IN_LOG, CHECKS, NODE_FIGURES
from semq.counters import COUNTERS
from semq.service.monitoring import health
from semq.service.node import PROGRAMS
from semq.service.operations.figures import BACKLOGS
from semq.status_words import FIGURES, WORDS
from semq.store.views.figures import KINDS
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Outcome, SendStatus
from semq.web.node.operations import table
from tests.console.texts import CONSOLE, RECONCILIATION, WEB, all_texts, in_templates, plurals, sentences
from tests.service.monitoring.test_health import VIOLATIONS, checks, with_datagram_path

ANSWERS = {Arrival.NOT, Arrival.SETTLED}  # no row has them
# Placeholders, commands, attributes, codes, options and settings, which are the same in all languages
FIELDS = re.compile(r"%\(\w+\)s|\{\w+\}|`[^`]*`|@[A-Z]\w+(?:=\d)?|SEMQ-\d{4}|--[a-z-]+|\b[a-z]+(?:_[a-z]+)*\.[a-z_]+")
NUMBERS = re.compile(r'<td[^>]* class="num"[^>]*>(.*?)</td>')
SEPARATED = re.compile(r"\|thousands|size\(|\|int\b|{{ (?:cell|value\|safe_text) }}")  # the latter are such texts
CHECK = re.compile(r'\bCheck\("(\w+)"')
GUIDES = sorted((Path(__file__).parents[2] / "docs" / "zh").glob("*.md"))
DIRECT = {"1.56001": {"link": "up", "last_error": ""}}


def test_every_check_of_a_node_has_a_name_and_a_next_step() -> None:
    state = {"running": True, "failing": {}}
    status = with_datagram_path() | {
        "drained": True, "violations": VIOLATIONS, "extract": {"exit_status": 0, "at": "", "output": ""},
        "companions": dict.fromkeys((*PROGRAMS, "folders", "webhooks"), state), "certificates": {}, "direct": DIRECT,
        "telemetry": {"failures": 3, "failing_since": 1, "dropped": 0, "last_error": "x"},
        "refused_rows": [{"rule": "tb_0030", "sqlstate": "23514", "count": 1, "last": 1, "text": "x"}],
        "failing_jobs": {"housekeeping": "x"}, "database": ["x"],
        "credential_files": [{"setting": "x", "fault": "x", "file": "x", "days_left": None}],
        "sql_submissions": {"refused": 0}, "partners": {"1.56001": {"online": True, "quota_reached": True}},
    }  # fmt: skip
    assert {check.name for check in checks(status)} == CHECKS.keys()
    assert set(CHECK.findall(Path(health.__file__).read_text("utf-8"))) <= CHECKS.keys()


def test_every_status_of_a_row_has_words() -> None:
    statuses = {*SendStatus, *Outcome, *AckStatus, *AppStatus, *Arrival} - ANSWERS
    assert {status.name for status in statuses} <= WORDS.keys()


def test_every_outcome_of_an_ended_document_has_words() -> None:
    assert {outcome for outcomes in OUTCOMES.values() for outcome in outcomes} <= WORDS.keys()


@pytest.mark.parametrize("kind", ["local", "platform"])
def test_every_act_in_the_audit_log_has_words(kind: str) -> None:
    assert {name for name, row in table(kind).items() if row.is_recorded} <= ACTS_IN_LOG.keys()


def test_every_figure_over_time_has_a_name() -> None:
    charts = {name for charts in DOCUMENTS.values() for title, kinds in charts for name in (title, *kinds)}
    assert {*charts, *KINDS, *(queue for queues in BACKLOGS.values() for queue in queues)} == FIGURES.keys()


def test_every_figure_of_the_state_of_a_node_has_words() -> None:
    fields = {"amqp": AmqpFigures.__struct_fields__, "store": WriterCounters.__struct_fields__, "counters": COUNTERS}
    assert {part: {*words} for part, (_name, words) in NODE_FIGURES.items()} == {
        part: {*names} for part, names in fields.items()
    }


# Chinese word | English ones; without them it would be a second name, for instance of a document, or have two meanings
ENGLISH_OF = {"协议": "protocol", "协定": "agree", "消息": "message|broker|carrier"}


@pytest.mark.parametrize("package", [CONSOLE, WEB, RECONCILIATION], ids=["console", "web", "reports"])
def test_every_text_is_translated_and_none_is_left_over(package: Path) -> None:
    with (package / "translations" / "zh.po").open("rb") as stream:
        messages = [message for message in read_po(stream) if message.id]
    translations = {message.id: message.string for message in messages}
    # The id of a plural is a pair of texts
    texts = {id_ if isinstance(id_, str) else id_[0]: text for id_, text in translations.items()}
    wanted = all_texts(package)
    assert sorted(wanted - texts.keys()) == []
    assert sorted(texts.keys() - wanted) == []
    english = sentences() if package == WEB else {}
    noted = {message.id: " ".join(message.auto_comments) for message in messages if message.id in english}
    assert noted == english  # the comments: who changes the English text of an error compares its translation
    for text, translation in texts.items():
        chinese = translation if isinstance(translation, str) else (translation or [""])[0]
        assert chinese.strip(), text
        assert sorted(FIELDS.findall(chinese)) == sorted(FIELDS.findall(english.get(text, text))), text
        for word, meant in ENGLISH_OF.items():
            assert word not in chinese or re.search(meant, english.get(text, text), re.IGNORECASE), text
    assert {id_[0]: id_[1] for id_ in translations if not isinstance(id_, str)} == plurals(package)


# Second names of things that have one in Chinese: hub, message, sealed; authority, store, web process; operator,
# direct link, AppKey; send again, stuck
OTHER_NAMES = (
    "平台", "报文", "加封", "颁发", "签发机构", "存储库", "Web 进程", "运维人员", "直连链路", "业务键",
    "重新发送", "停滞",
)  # fmt: skip
PROTOCOL = re.compile("协议(?!禁止)")  # in the guides; an agreement is 协定


@pytest.mark.parametrize("file", [*(p / "translations" / "zh.po" for p in (CONSOLE, WEB, RECONCILIATION)), *GUIDES])
def test_each_thing_has_one_name_in_chinese(file: Path) -> None:
    text = file.read_text("utf-8")
    assert [word for word in OTHER_NAMES if word in text] == []
    assert file not in GUIDES or not PROTOCOL.search(text)


@pytest.mark.parametrize("package", [CONSOLE, WEB], ids=["console", "web"])
def test_templates_call_a_document_by_no_other_name_and_give_numbers_separators(package: Path) -> None:
    assert [text for text in in_templates(package) if re.search("message", text, re.IGNORECASE)] == []
    cells = [cell for file in package.glob("templates/*.html") for cell in NUMBERS.findall(file.read_text("utf-8"))]
    assert [cell for cell in cells if not SEPARATED.search(cell)] == []
