"""The layout of the page on a wide screen and on a telephone: no content beyond the edge, no horizontal scrolling,
complete pictures, and readable letters.
"""

from pathlib import Path

import pytest

from tests.spark_reconcile.report.browser import laid_out
from tests.spark_reconcile.report.published import PublishedReports


@pytest.mark.parametrize("width", [1280, 700, 390])
def test_pages_fit_the_width_of_a_screen(report: PublishedReports, width: int, tmp_path: Path) -> None:
    found = laid_out(report.text, width, tmp_path)
    assert found["width"] <= width
    assert found["beyond"] == []
    assert found["scrolled"] == []
    assert found["cut"] == []
    assert found["pictures"] == (5 if width > 736 else 0)  # narrow screens have bars of text instead
    assert found["bars"] == (0 if width > 736 else 5)
    assert all(height > 5 for height in found["bar_heights"])  # pixels
    assert found["letters"] >= 10  # pixels
