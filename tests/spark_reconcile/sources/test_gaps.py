"""Gaps: ledger and date of each missing extract that verdicts need."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_reconcile.days import neighbours
from spark_reconcile.run.stages import Absence
from spark_reconcile.sources.gaps import Gap, gaps, missing
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE, Source
from tests.spark_reconcile.office import DAY, HUB
from tests.spark_reconcile.report.examples import source

BEFORE, LONG_AGO = DAY - timedelta(days=1), DAY - timedelta(days=9)
A = source("1.a")
HUB_1 = source(HUB, role="platform")
HUB_2 = source(HUB, role="platform", store="2.1")
CASES: dict[str, tuple[list[Source], Absence, list[Gap]]] = {
    "one of two stores of the hub is missing": (
        [A, HUB_1, replace(HUB_2, state="MISSING", manifest=None), replace(HUB_2, day=BEFORE)],
        Absence(THE_HUB, DAY, 5),
        [Gap(f"{HUB}.2.1", DAY, 5)],
    ),
    "one of two stores of the hub is altered": (
        [A, HUB_1, replace(HUB_2, state="ALTERED")],
        Absence(THE_HUB, DAY, 5),
        [Gap(f"{HUB}.2.1", DAY, 5)],
    ),
    "both stores of the hub lack the date before": (
        [A, HUB_1, HUB_2],
        Absence(THE_HUB, DAY, 5),
        [Gap(f"{HUB}.1.1", BEFORE, 5), Gap(f"{HUB}.2.1", BEFORE, 5)],
    ),
    "one of two stores of the hub lacks the date": (
        [A, HUB_1, HUB_2, replace(HUB_1, day=BEFORE)],
        Absence(THE_HUB, BEFORE, 5),
        [Gap(f"{HUB}.2.1", BEFORE, 5)],
    ),
    "no ledger of the hub is known": ([A], Absence(THE_HUB, DAY, 5), [Gap(THE_HUB, DAY, 5)]),
    "a message names a store without extracts, of a node that has delivered another": (
        [A, HUB_1],
        Absence("1.a.2.1", DAY, 3),
        [Gap("1.a.2.1", DAY, 3)],
    ),
    "no ledger of the node is known": ([A, HUB_1], Absence("1.b", DAY, 3), [Gap("1.b", DAY, 3)]),
    "the date is delivered, the date before is not": ([A, HUB_1], Absence("1.a", DAY, 3), [Gap("1.a.1.1", BEFORE, 3)]),
    "the extract was made before its date was over": (
        [A, HUB_1, source("1.a", day=BEFORE, early_ms=1)],
        Absence("1.a", BEFORE, 3),
        [Gap("1.a.1.1", BEFORE, 3)],
    ),
    "the run does not read the date of the carried message": (
        [A, HUB_1],
        Absence("1.a", LONG_AGO, 3),
        [Gap("1.a", LONG_AGO, 3)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_needed_extract_is_named_with_its_date(case: str) -> None:
    sources, absence, expected = CASES[case]
    assert gaps(sources, {HUB}, [absence], neighbours(DAY)) == expected


def test_counts_of_one_gap_are_added_and_the_largest_gap_is_first() -> None:
    absences = [Absence("1.b", DAY, 1), Absence("1.a.2.1", DAY, 2), Absence("1.b", DAY, 4)]
    assert gaps([A, HUB_1], {HUB}, absences, neighbours(DAY)) == [Gap("1.b", DAY, 5), Gap("1.a.2.1", DAY, 2)]


def test_a_ledger_named_by_a_message_is_reported_as_missing() -> None:
    absences = [Absence("1.b", DAY, 1), Absence("1.b.1.1", DAY, 2), Absence(UNKNOWN_STORE, DAY, 1)]
    assert gaps([A, HUB_1], {HUB}, absences, neighbours(DAY)) == [Gap("1.b.1.1", DAY, 3), Gap(UNKNOWN_STORE, DAY, 1)]


def test_missing_sources_are_named_once_by_ledger_if_it_is_known() -> None:
    sources = [A, source("1.b", "MISSING"), HUB_1, replace(HUB_2, state="MISSING", manifest=None)]
    needed = [Gap("1.b", DAY, 3), Gap("1.c", DAY, 1), Gap(f"{HUB}.2.1", DAY, 2)]
    assert missing(sources, needed) == ["1.b.1.1", "1.c", f"{HUB}.2.1"]
    assert missing([Source(DAY, THE_HUB, "MISSING")], [Gap(THE_HUB, DAY, 4)]) == [THE_HUB]
