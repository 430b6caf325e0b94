"""The report: complete, in order, safe, and with the same numbers in every file."""

import html
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

from babel.messages.pofile import read_po

import semq
import spark_reconcile
from spark_reconcile.judgement.verdicts import VERDICT
from spark_reconcile.report.exceptions import Exceptions
from spark_reconcile.report.findings import Findings, tally
from spark_reconcile.report.page import PageContent, render
from spark_reconcile.report.pairs import Pairs
from spark_reconcile.report.sheets import SheetSize
from spark_reconcile.run.limits import Breach
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources.gaps import Gap
from tests.spark_reconcile.office import DAY
from tests.spark_reconcile.report import exposition
from tests.spark_reconcile.report.examples import findings, source
from tests.spark_reconcile.report.published import NEXT, PublishedReports, summary_of
from tests.spark_reconcile.report.reading import PageReader, number

# ---------------------------------------------------------------- the document


def test_the_page_is_self_contained_and_has_no_script(report: PublishedReports) -> None:
    page = report.page
    assert page.references == []
    assert not page.tags & {"script", "iframe", "object", "embed", "link", "img", "form", "b"}
    assert "url(" not in report.text
    assert "&lt;script&gt;" in report.text
    assert not {"\x00", "\x1b"} & set(report.text)
    assert "上海凌云贸易" in report.text
    assert "&lt;b&gt;津南物流" in report.text


def test_headings_are_in_order_and_every_link_has_its_anchor(report: PublishedReports) -> None:
    page = report.page
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(words for _, words in page.headings)
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert page.lang == "en"


def test_tables_have_captions_and_scopes_and_the_trend_has_thirty_dates(report: PublishedReports) -> None:
    page = report.page
    assert all(table.caption for table in page.tables)
    assert {scope for table in page.tables for scope in table.scopes} == {"col", "row"}
    assert 'aria-label="Exceptions of the last thirty days"' in report.text
    assert report.text.count("<li><span>") + report.text.count('<li class="none"><span>') == 30


def test_the_page_has_the_look_of_the_console(report: PublishedReports) -> None:
    assert Path(semq.__file__).with_name("look.css").read_text("utf-8").strip() in report.text


def test_on_a_narrow_screen_every_table_is_small_or_becomes_cards_with_labels(report: PublishedReports) -> None:
    tables = re.findall(r"<table\b.*?</table>", report.text, re.DOTALL)
    for table in tables:
        kinds = re.match(r'<table class="([^"]*)"', table)
        assert kinds is not None, table[:80]
        assert {"list", "small"} & set(kinds[1].split())
        body = table[table.index("<tbody>") :]
        if "list" in kinds[1]:
            bare = [
                cell for cell in re.findall(r"<td\b[^>]*>", body) if "data-label" not in cell and "colspan" not in cell
            ]
            assert bare == []
    narrow = report.text[report.text.index("@media screen and (max-width") : report.text.index("@media print")]
    assert not re.search(r"min-width: *[1-9]|nowrap|overflow-x: *(auto|scroll)", narrow.split("{", 1)[1])


# ---------------------------------------------------------------- the numbers


def code_of(name: str) -> str:
    """Return the code of a verdict, which stands beside its words."""
    return name.removesuffix(" ✗").split()[-1]


def test_the_verdicts_are_those_of_all_other_files(report: PublishedReports) -> None:
    summary, page = report.summary, report.page
    tables = [page.table("Verdicts without documents"), page.table("Each document of this date")]
    shown, found, known = (
        {code_of(name): number(count) for table in tables for name, count in table.column(heading).items()}
        for heading in ("Of this date", "Of earlier dates (found now)", "Of earlier dates (known before)")
    )
    assert list(VERDICT) == sorted(shown.keys() - {"All"}, key=list(VERDICT).index)
    assert all(not any(map(number, row[1:4])) for row in tables[0].rows[1:])
    carried = {name: found[name] + known[name] for name in found}
    assert {name: count for name, count in found.items() if count and name != "All"} == summary["carried"]["found_now"]
    assert shown == {**summary["verdicts"], "All": summary["messages"]}
    assert carried == {**summary["carried"]["verdicts"], "All": summary["carried"]["messages"]}
    for scope, counts in (("date", shown), ("carried", carried)):
        judged = Counter(row["verdict"] for row in report.rows("verdicts.parquet") if row["scope"] == scope)
        assert {name: count for name, count in counts.items() if count and name != "All"} == dict(judged)
    assert carried["MISSING_AT_HUB"] == carried["NOT_DELIVERED"] == 1
    assert shown["SOURCE_MISSING"] == 6
    assert (
        f"{summary['exceptions']} of {summary['messages']} documents need work, and 2 of earlier dates" in report.text
    )
    assert summary["need_work"] == {"date": summary["exceptions"], "earlier": 2}
    assert sum(row["documents"] for row in summary["work"]) == summary["exceptions"] + 2


def test_the_pairs_are_those_of_all_other_files(report: PublishedReports) -> None:
    rows = [row for caption in ("Pairs with exc", "Pairs without") for row in report.page.table(caption).rows[1:]]
    summary = {f"{pair['sender']}>{pair['receiver']}": pair for pair in report.summary["pairs"]}
    sheet = report.sheet("pairs.csv")
    assert [row["Pair"] for row in sheet] == list(summary)[:3]
    listed = dict(zip(summary, rows, strict=True))
    for name, cells in listed.items():
        pair = summary[name]
        of_table = [row for row in report.rows("pairs.parquet") if f"{row['sender']}>{row['receiver']}" == name]
        counted = Counter({row["verdict"]: row["messages"] for row in of_table if row["scope"] == "date"})
        wrong = sum(count for verdict, count in counted.items() if VERDICT[verdict].kind == "exception")
        assert [number(cells[at]) for at in (1, 2, 3)] == [counted.total(), counted["MATCHED"], wrong]
        assert (pair["messages"], pair["exceptions"], pair["verdicts"]) == (counted.total(), wrong, dict(counted))
        assert number(cells[5]) + number(cells[6]) == pair["carried"]["exceptions"]
    for row in sheet[:-1]:
        pair = summary[row["Pair"]]
        assert (int(row["Messages"]), int(row["Exceptions"])) == (pair["messages"], pair["exceptions"])
        assert int(row["Exceptions of earlier dates"]) == pair["carried"]["exceptions"]
        assert {name: int(row[name]) for name in VERDICT if int(row[name])} == pair["verdicts"]
    assert [name for name, cells in listed.items() if "✗ threshold" in cells[0]] == ["1.b>1.a"]
    assert sheet[0]["Thresholds exceeded"] + sheet[1]["Thresholds exceeded"] == "MATCHED"


def test_the_page_has_the_details_of_each_pair(report: PublishedReports) -> None:
    page = report.page
    for index, pair in enumerate(report.summary["pairs"], 1):
        assert f"p{index}" in page.ids
        assert f"#p{index}" in page.links
        tables = _tables_of(page, index)
        verdicts = {code_of(row[0]): number(row[1]) for row in tables["Verdicts"][1:]}
        assert {name: count for name, count in verdicts.items() if count} == pair["verdicts"]
        latency = {row[0]: number(row[1]) for row in tables.get("From acceptance", [])[1:]}
        assert {within: count for within, count in latency.items() if count} == {
            bucket["within"]: bucket["messages"] for bucket in pair["latency"]
        }
        ages: Counter[str] = Counter()
        for bucket in (*pair["ages"], *pair["carried"]["ages"]):
            if VERDICT[bucket["verdict"]].kind != "fine":
                ages[bucket["age"]] += bucket["messages"]
        assert {row[0]: number(row[3]) for row in tables.get("Ages of", [])[1:] if number(row[3])} == dict(ages)
        assert [row[0] for row in tables["By business date"][1:]] == [DAY.isoformat(), NEXT.isoformat()]
        assert number(tables["By business date"][2][2]) == pair["exceptions"]
        exceptions = tables.get("Its exceptions", [])[1:]
        assert len(exceptions) == pair["exceptions"] + pair["carried"]["exceptions"]


def _tables_of(page: PageReader, pair: int) -> dict[str, list[list[str]]]:
    """Return the rows of each table about pair number ``pair`` of the page, by the beginning of its caption."""
    starts = [at for at, table in enumerate(page.tables) if table.caption.startswith("Verdicts of this pair")]
    ends = [*starts[1:], len(page.tables)]
    beginnings = ("Verdicts", "From acceptance", "Ages of", "By business date", "Its exceptions")
    tables: dict[str, list[list[str]]] = {}
    for table in page.tables[starts[pair - 1] : ends[pair - 1]]:
        beginning = next((text for text in beginnings if table.caption.startswith(text)), None)
        if beginning is None:
            break
        tables[beginning] = table.rows
    return tables


def test_trend_ages_and_latency_are_those_of_the_summaries(report: PublishedReports) -> None:
    page, summary = report.page, report.summary
    heading, *days = page.table("Documents and verdicts by business date").rows
    summaries = [summary_of(report.first), summary]
    assert [row[0] for row in days] == [DAY.isoformat(), NEXT.isoformat()]
    for name, *counts in zip(*[heading, *days], strict=True):
        key = {"Documents": "messages", "Exceptions": "exceptions"}.get(name)
        if name != "Date":
            expected = [facts[key] if key else facts["verdicts"][code_of(name)] for facts in summaries]
            assert [number(count) for count in counts] == expected
    latency = {row[0]: number(row[1]) for row in page.table("Documents of this date by the time").rows[1:]}
    assert {name: count for name, count in latency.items() if count} == {
        bucket["within"]: bucket["messages"] for bucket in summary["latency"]
    }
    ages = page.table("Exceptions and open documents by age").rows[1:]
    buckets = [*summary["ages"], *summary["carried"]["ages"]]
    assert sum(number(row[3]) for row in ages) == sum(
        bucket["messages"] for bucket in buckets if VERDICT[bucket["verdict"]].kind != "fine"
    )


# ---------------------------------------------------------------- owners and next steps


def test_every_exception_has_owner_states_and_command(report: PublishedReports) -> None:
    text = report.text
    for row in report.rows("exceptions.parquet"):
        assert f"<code>{row['lk0']}</code>" in text
        assert f"{row['lk0']} " in text.replace("<code>", "")  # the locator in a command
    assert "sender: sent it and got no answer; hub: has no line; receiver: has no line." in text
    assert "semq msg inquire" in text
    assert f"semq reconcile apply --business-date {NEXT} --config FILE --reports FOLDER" in text
    assert "Owner: receiver <bdi>1.a</bdi> <bdi>上海凌云贸易</bdi>." in text
    lists = report.page.table("The repair lists").column("Documents on its list")
    assert sum(map(number, lists.values())) == sum(report.result.deeds.values())


def test_missing_sources_old_messages_and_wrong_clocks_are_reported(report: PublishedReports) -> None:
    text = report.text
    (row,) = (row for row in report.page.table("The work").rows if row[0] == "1.c.1.1")
    assert (row[1], row[2]) == ("6", "No ledger")
    assert 'the delivered ledgers are complete; what is absent is under <a href="#sources">Sources</a>' in text
    assert "all ledgers are complete" not in text
    assert f"semq reconcile extract --business-date {NEXT} --config FILE" in text
    assert "fast by 1 h" in text
    assert "Its lines are put in order by the hub's clock. Clock of <bdi>1.b</bdi>" in " ".join(text.split())
    assert "carried from an earlier date" in text
    assert "50.0 % of 6 documents (3 of this date); allowed: at most 10 %" in text


def test_only_disclosed_parts_of_a_business_key_are_shown_beside_the_command_that_shows_the_key(
    report: PublishedReports,
) -> None:
    (row,) = (row for row in report.rows("exceptions.parquet") if row["app_key_hash"])
    text = " ".join(report.text.split())
    assert (
        f"<code>{'c0ffee' * 5}</code>; both ends show it in clear: <code>semq msg show {row['lk0']} --config FILE"
        in text
    )
    assert "<bdi>trade/order/&lt;std&gt;</bdi>" in text
    assert "Business key: not disclosed; both ends show it in clear" in text
    keys = {row["Message (LK0)"]: row["AppKey type"] for row in report.sheet("exceptions.csv")[:-1]}
    assert set(keys.values()) <= {"", "trade/order/<std>"}


def test_a_story_is_ordered_by_the_clock_of_the_hub_and_its_times_have_their_offset(report: PublishedReports) -> None:
    story = next(
        table.rows
        for table in report.page.tables
        if table.caption.startswith("Its story") and any("hub" in row[2] for row in table.rows) and len(table.rows) > 6
    )
    events = [(row[2], row[3]) for row in story[1:]]
    assert events[0] == ("sender", "accepted from the application")
    assert events.index(("receiver", "recorded")) < events.index(("sender", "noted: delivered (Ack2)"))
    assert all(row[0].endswith("+00:00") for row in story[1:])


def test_exceeded_thresholds_begin_with_the_most_urgent_verdict_and_name_pair_and_next_step(
    report: PublishedReports,
) -> None:
    banner = report.text[report.text.index("<ol class") : report.text.index("</ol>")]
    lines = [" ".join(re.sub("<[^>]*>", "", item).split()) for item in banner.split("<li>")[1:]]
    assert [next(name for name in VERDICT if name in line) for line in lines] == [
        "DIGEST_MISMATCH", "DUPLICATE_DELIVERED", "NOT_DELIVERED", "MISSING_AT_HUB", "ACK_NOT_RETURNED", "MATCHED",
    ]  # fmt: skip
    assert lines[3].startswith(
        "not seen at the hub MISSING_AT_HUB: 1 of this date; allowed: none. Worst pair: 1.a 上海凌云贸易 → 1.b"
    )
    assert all("Owner: " in line for line in lines)


def test_exceptions_precede_the_pairs_and_pairs_without_exceptions_are_folded(report: PublishedReports) -> None:
    text = report.text
    assert text.index('id="exceptions"') < text.index('id="pairs"') < text.index("pairs have no exception")
    folded = text[text.index("pairs have no exception") : text.index('<h2 id="sources"')]
    fine = [pair for pair in report.summary["pairs"] if not pair["exceptions"] + pair["carried"]["exceptions"]]
    assert len(fine) == folded.count('<details class="pair"') == 2


# ---------------------------------------------------------------- without Spark


def rendered(found: Findings, repair: dict[str, int] | None = None) -> str:
    """Return the page of findings without pairs and exceptions, with single spaces."""
    pairs = Pairs(SheetSize(0, 0), (), {}, {}, {}, [], 0)
    nothing = Exceptions(SheetSize(0, 0), [])
    content = PageContent(found, pairs, nothing, {}, [], repair or {}, [])
    return " ".join(render(content, ReconcileSettings()).split())


def test_the_page_is_bounded_with_many_breaches_and_missing_sources() -> None:
    nodes = [f"1.{number}" for number in range(1000)]
    found = findings(
        sources=tuple(source(node, "MISSING") for node in nodes),
        absent=[Gap(f"{node}.1.1", DAY, 1) for node in nodes],
        breaches=[Breach(f"{node}>1.x", "MATCHED", "max_count", 1, 0) for node in nodes],
    )
    text = rendered(found, dict.fromkeys(nodes, 1))
    assert text.count("and 970 others: exceptions.csv and summary.json have all of them.") == 2
    assert "and 700 others: exceptions.csv and summary.json have all of them." in text
    assert len(text) < 210_000


def test_pieces_are_counted_as_documents() -> None:
    row = {"scope": "date", "verdict": "MATCHED", "finding": "all_agree", "messages": 3, "bytes": 0, "resends": 0,
           "turned": 0, "pieces": 2, "oldest_at": None, "age": None, "latency": None}  # fmt: skip
    text = rendered(findings(tally=tally([row])))
    assert "3: 1 documents and 2 pieces of large ones, which count as documents; matched: 3 (100.0 %)" in text
    assert "None of 3 documents needs work" in text


# ---------------------------------------------------------------- the other files


def test_cut_files_are_marked_everywhere(report: PublishedReports) -> None:
    found = len(report.rows("exceptions.parquet"))
    assert found > 3
    assert len(report.sheet("exceptions.csv")) == len(report.sheet("pairs.csv")) == 3
    for name, count in (("exceptions", found), ("pairs", 4)):
        note = (report.folder / f"{name}.csv.cut.txt").read_text()
        assert note == f"{name}.csv has the first 3 of {count} rows; all of them are in {name}.parquet.\n"
    assert report.summary["files"] == {"exceptions.csv": {"rows": 3, "of": found}, "pairs.csv": {"rows": 3, "of": 4}}
    page = " ".join(report.text.split())
    assert "exceptions.csv lists the first 3 of them, exceptions.parquet all." in page
    assert "pairs.csv has the worst 3 of them, pairs.parquet all" in page


def test_prometheus_can_read_the_metrics_and_they_equal_the_summary(report: PublishedReports) -> None:
    types, samples = exposition.read((report.folder / "metrics.prom").read_text("utf-8"))
    assert types == dict.fromkeys(
        [
            "semq_reconcile_business_date_timestamp_seconds", "semq_reconcile_last_success_timestamp_seconds",
            "semq_reconcile_run_duration_seconds", "semq_reconcile_evidence_until_timestamp_seconds",
            "semq_reconcile_messages", "semq_reconcile_carried_messages", "semq_reconcile_sources",
            "semq_reconcile_threshold_breaches", "semq_reconcile_outcome", "semq_reconcile_node_exceptions",
            "semq_reconcile_node_unjudged_messages",
        ],
        "gauge",
    )  # fmt: skip
    summary = report.summary
    for name, counts in (("messages", summary["verdicts"]), ("carried_messages", summary["carried"]["verdicts"])):
        for verdict, count in counts.items():
            assert samples[f"semq_reconcile_{name}", f'verdict="{verdict}"'] == count
    assert samples["semq_reconcile_sources", 'state="MISSING"'] == 1
    assert samples["semq_reconcile_threshold_breaches", ""] == len(summary["breaches"])
    outcome = json.loads((report.folder / "_RESULT.json").read_text())["outcome"]
    outcomes = {labels: value for (name, labels), value in samples.items() if name == "semq_reconcile_outcome"}
    assert {f'outcome="{name}"' for name in ("implausible", "partial", outcome)} <= outcomes.keys()
    assert {labels for labels, value in outcomes.items() if value} == {f'outcome="{outcome}"'}
    assert samples["semq_reconcile_evidence_until_timestamp_seconds", ""] == summary["evidence_until"] / 1000


def test_the_chinese_page_has_no_text_that_has_a_translation(report: PublishedReports) -> None:
    page = html.unescape(" ".join((report.folder / "report.zh.html").read_text("utf-8").split()))
    with (Path(spark_reconcile.__file__).parent / "translations" / "zh.po").open("rb") as stream:
        texts = [message.id for message in read_po(stream) if isinstance(message.id, str) and " " in message.id]
    beginnings = [text.partition("%")[0].strip() for text in texts]
    assert [text for text in beginnings if len(text) > 20 and text in page] == []
