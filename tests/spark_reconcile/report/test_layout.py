"""The layout of the pages on a wide screen and on a telephone."""

import pytest

from tests.spark_reconcile.report.browser import measure_layout
from tests.spark_reconcile.report.published import PublishedReports

FOLDS = {1280: 800, 700: 900, 390: 844}  # width of a screen | its height


@pytest.mark.parametrize("page", ["report.html", "report.zh.html", "partners/1.a.html"])
def test_pages_fit_each_width_and_begin_with_the_work(
    report: PublishedReports, tmp_path_factory: pytest.TempPathFactory, page: str
) -> None:
    text = (report.folder / page).read_text("utf-8")
    layouts = measure_layout(text, FOLDS, tmp_path_factory.mktemp("layout"))
    for width, found in layouts.items():
        assert found["width"] <= width
        assert found["beyond"] == []
        assert found["scrolled"] == []
        headline, *work = found["ends"]
        assert headline < FOLDS[width]
        assert len(work) == (5 if page.startswith("report") else 0)
        assert all(end < FOLDS[width] for end in work[:4])  # seen without unfolding or scrolling
