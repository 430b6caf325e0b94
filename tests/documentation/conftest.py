"""Without a browser, the test of the site is left out."""

from tests.console.browsers import PROGRAM

collect_ignore = [] if PROGRAM else ["test_site.py"]


def pytest_report_header() -> list[str]:
    return [] if PROGRAM else ["documentation: test_site.py is left out, because there is no chromium"]
