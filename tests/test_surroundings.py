"""Coverage is measured during the tests that need it, and during all tests if another package is measured."""

import pytest
from coverage import Coverage

from tests.surroundings import COVERED_BY_OWN_TESTS, Measuring

OWN, OTHER = "tests/seal/test_keys.py::test_a", "tests/flows/test_order.py::test_b"


class FakeCoverage:
    """Records the calls that it gets. It is current while it runs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.current: FakeCoverage | None = self

    def start(self) -> None:
        self.asked.append("start")
        self.current = self

    def stop(self) -> None:
        self.asked.append("stop")
        self.current = None


@pytest.fixture
def cover(monkeypatch: pytest.MonkeyPatch) -> FakeCoverage:
    fake = FakeCoverage()
    monkeypatch.setattr(Coverage, "current", lambda: fake.current)
    return fake


def test_it_pauses_during_other_tests(cover: FakeCoverage) -> None:
    measuring = Measuring(COVERED_BY_OWN_TESTS)
    for place in (OWN, OTHER, OTHER, OWN, OWN, OTHER):
        measuring.begin(place)
    assert cover.asked == ["stop", "start", "stop"]


@pytest.mark.parametrize("sources", [[True], [*COVERED_BY_OWN_TESTS, "semq/engine"], []])
def test_it_never_pauses_where_other_packages_are_measured(cover: FakeCoverage, sources: list[str | bool]) -> None:
    measuring = Measuring(sources)
    measuring.begin(OTHER)
    measuring.begin(OWN)
    assert cover.asked == []
