"""Figures: three numbers that never overlap, with unambiguous names."""

from spark_reconcile.report.figures import FindingCount, VerdictFigures, figures


def test_rows_add_up_to_figures_that_do_not_overlap() -> None:
    rows = [
        FindingCount("date", "", "", 2),
        FindingCount("carried", "", "", 4, turned=2),
        FindingCount("carried", "", "", 1),
    ]
    total = figures(rows)
    assert total == VerdictFigures(2, 2, 3)
    assert (total.new, total.all) == (4, 7)


def test_the_words_name_each_number_above_zero_and_no_sum() -> None:
    assert (
        VerdictFigures(2, 2, 3).words()
        == "2 of this date, 2 of earlier dates (found now), 3 of earlier dates (known before)"
    )
    assert VerdictFigures(1_200).words() == "1,200 of this date"
    assert VerdictFigures(0, 0, 1).words() == "1 of earlier dates (known before)"
    assert VerdictFigures().words() == "0 of this date"
