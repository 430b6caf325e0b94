"""The layout of the page on a wide screen and on a telephone."""

from typing import Any

import pytest

from tests.spark_reconcile.report.browser import measure_layout
from tests.spark_reconcile.report.published import PublishedReports

WIDTHS = (1280, 700, 390)


@pytest.fixture(scope="module")
def layouts(report: PublishedReports, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """Return the measurements of the page by width, made in one start of the browser."""
    return measure_layout(report.text, WIDTHS, tmp_path_factory.mktemp("layout"))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_each_width(layouts: dict[int, dict[str, Any]], width: int) -> None:
    found = layouts[width]
    assert found["width"] <= width
    assert found["beyond"] == []
    assert found["scrolled"] == []
    assert found["cut"] == []
    assert found["pictures"] == (5 if width > 736 else 0)  # narrow screens have bars of text instead
    assert found["bars"] == (0 if width > 736 else 5)
    assert all(height > 5 for height in found["bar_heights"])  # pixels
    assert found["text_height_min"] >= 10  # pixels
