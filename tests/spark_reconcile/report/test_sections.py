"""Parts of the page about the whole date: thresholds, ledgers that need attention, ages and latency."""

from datetime import timedelta

import pytest

from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.findings import Tally, tally
from spark_reconcile.report.sections import ages, breach_words, latency, limit_words, sources
from spark_reconcile.run.limits import Breach
from spark_reconcile.settings import Limit, ReconcileSettings
from spark_reconcile.sources.clocks import Skew
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import Source
from tests.spark_reconcile.office import DAY, HUB
from tests.spark_reconcile.report.examples import findings, source

BEFORE = DAY - timedelta(days=1)


@pytest.mark.parametrize(
    ("breach", "words"),
    [
        (Breach("", "X", "max_count", 1, 0, 1, 10), "1 of this date; allowed: none"),
        (Breach("", "X", "max_count", 1200, 5, 1200), "1,200 of this date; allowed: at most 5"),
        (
            Breach("", "X", "max_rate", 0.000488, 0.0001, 488, 1_000_000),
            "0.049 % of 1,000,000 documents (488 of this date); allowed: at most 0.01 %",
        ),
        (Breach("", "X", "max_age_s", 69_414, 3600), "the oldest is 19 h 16 min old; allowed: at most 1 h old"),
        (Breach("", "X", "max_age_s", 3_601, 3600), "the oldest is 1 h 1 s old; allowed: at most 1 h old"),
        (
            Breach("", "X", "max_age_s", 90_059, 90_000),
            "the oldest is 1 d 1 h 59 s old; allowed: at most 1 d 1 h old",
        ),
        (
            Breach("", "PARKED", "max_rate", 329 / 328_000, 0.001, 329, 328_000),
            "0.1003 % of 328,000 documents (329 of this date); allowed: at most 0.1 %",
        ),
        (
            Breach("", "X", "max_rate", 1_000_001 / 10**9, 0.001, 1_000_001, 10**9),
            "0.1000001 % of 1,000,000,000 documents (1,000,001 of this date); allowed: at most 0.1 %",
        ),
        (
            Breach("", "X", "max_rate", 0.000001, 0.0, 1, 10**6),
            "0.0001 % of 1,000,000 documents (1 of this date); allowed: at most 0 %",
        ),
    ],
)
def test_a_breach_names_the_figure_and_its_limit(breach: Breach, words: str) -> None:
    assert breach_words(breach) == words


def test_a_breach_of_the_whole_date_names_messages_of_the_date_and_exceptions_found_now() -> None:
    assert breach_words(Breach("", "X", "max_count", 4, 0, 4), VerdictFigures(2, 2, 9)) == (
        "2 of this date, 2 of earlier dates (found now); allowed: none"
    )


def test_all_parts_of_a_limit_are_printed() -> None:
    assert limit_words(None) == limit_words(Limit()) == ""
    assert limit_words(Limit(max_count=7, max_rate=0.5, max_age_s=60)) == "at most 7, at most 50 %, at most 1 min old"


def test_ledgers_that_need_attention_are_listed_separately_and_once() -> None:
    found = findings(
        sources=(
            source(HUB, role="platform"), source("1.good"), source("1.fast"), source("1.late", "MISSING"),
            source("1.twice", "REPEATED"), source("1.fast", day=BEFORE), source("1.bad", "ALTERED", day=BEFORE),
        ),
        skews={"1.fast": Skew(7_200_000, 9, 10, 0, 86), "1.good": Skew(1000, 9, 10, 0, 20), HUB: Skew(5000, 1, 1, 0)},
        absent=[Gap("1.late.1.1", DAY, 5), Gap("1.never", DAY, 7), Gap("1.good.1.1", BEFORE, 2), Gap("1.bad.1.1", BEFORE, 3)],
    )  # fmt: skip
    result = sources(found, ReconcileSettings(names={"1.never": "某某"}))
    assert [row.of.source for row in result["fine"]] == [f"{HUB}.1.1", "1.good.1.1"]
    assert [(row.of.source, row.of.day, row.state.name, row.unjudged, row.clock) for row in result["trouble"]] == [
        ("1.never", DAY, "MISSING", 7, ""),
        ("1.late.1.1", DAY, "MISSING", 5, ""),
        ("1.bad.1.1", BEFORE, "ALTERED", 3, "not known"),
        ("1.good.1.1", BEFORE, "MISSING", 2, ""),
        ("1.fast.1.1", DAY, "COMPLETE", 0, "fast by 2 h ± 86 ms"),
        ("1.twice.1.1", DAY, "REPEATED", 0, "not known"),
    ]
    assert result["trouble"][0].called == "某某"
    assert {row.of.source: row.clock for row in result["fine"]}["1.good.1.1"] == "fast by 1 s ± 20 ms"


@pytest.mark.parametrize(("is_partial", "trouble"), [(True, ["1.early.1.1", "the run of 2026-11-19"]), (False, [])])
def test_missing_runs_and_extracts_made_too_early_need_attention(is_partial: bool, trouble: list[str]) -> None:
    missing_run = [Source(BEFORE, "the run of 2026-11-19", "NOT_RUN", "Repair: run it")] if is_partial else []
    found = findings(sources=(source("1.good"), source("1.early", early_ms=9), *missing_run), is_partial=is_partial)
    result = sources(found, ReconcileSettings())
    assert [row.of.source for row in result["trouble"]] == trouble
    assert all(row.note for row in result["trouble"])
    assert {row.of.source for row in result["fine"]} == {"1.good.1.1", "1.early.1.1"} - set(trouble)


def test_figures_and_ages_include_carried_messages_and_latency_is_of_the_date() -> None:
    row = {"messages": 1, "bytes": 1, "resends": 0, "oldest_at": 1, "turned": 1, "pieces": 0, "finding": "f"}
    counted = tally(
        [
            {**row, "scope": "date", "verdict": "MATCHED", "age": 1, "latency": 0},
            {**row, "scope": "date", "verdict": "NOT_DELIVERED", "age": 1, "latency": None},
            {**row, "scope": "carried", "verdict": "SOURCE_MISSING", "age": 1, "latency": 3},
        ]
    )
    assert [counted.figures(name) for name in ("SOURCE_MISSING", "NOT_DELIVERED", "PARKED")] == [
        VerdictFigures(0, 1, 0), VerdictFigures(1, 0, 0), VerdictFigures(),
    ]  # fmt: skip
    (bucket,) = (bucket for bucket in ages(counted) if bucket["messages"])
    assert (bucket["exceptions"], bucket["open"], bucket["messages"]) == (1, 1, 2)
    assert [bucket["messages"] for bucket in latency(counted) if bucket["messages"]] == [1]
    assert ages(Tally((), {}, {})) == latency(Tally((), {}, {})) == []
