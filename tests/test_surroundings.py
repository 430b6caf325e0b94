"""Coverage is measured during the tests that need it."""

import pytest
from coverage import Coverage

from tests.surroundings import COVERED_BY_OWN_TESTS, Measuring

OWN, OTHER = "tests/seal/test_keys.py::test_a", "tests/flows/test_order.py::test_b"


class FakeCoverage:
    """A coverage that records its calls. It is the current one while it runs."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.current: FakeCoverage | None = self

    def start(self) -> None:
        self.calls.append("start")
        self.current = self

    def stop(self) -> None:
        self.calls.append("stop")
        self.current = None


@pytest.fixture
def cover(monkeypatch: pytest.MonkeyPatch) -> FakeCoverage:
    fake = FakeCoverage()
    monkeypatch.setattr(Coverage, "current", lambda: fake.current)
    return fake


def test_measuring_pauses_during_the_collection_and_the_tests_of_other_packages(cover: FakeCoverage) -> None:
    measuring = Measuring(COVERED_BY_OWN_TESTS)
    measuring.pause()
    for test_id in (OWN, OTHER, OTHER, OWN, OWN, OTHER):
        measuring.begin(test_id)
    assert cover.calls == ["stop", "start", "stop", "start", "stop"]


@pytest.mark.parametrize("sources", [[True], [*COVERED_BY_OWN_TESTS, "semq/engine"], []])
def test_measuring_never_pauses_if_other_packages_are_measured(cover: FakeCoverage, sources: list[str | bool]) -> None:
    measuring = Measuring(sources)
    measuring.pause()
    measuring.begin(OTHER)
    measuring.begin(OWN)
    assert cover.calls == []
