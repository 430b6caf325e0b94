"""States of sections for tests: reported by a companion, and read as its node reads them."""

from collections.abc import Mapping

from semq.clock import SystemClock
from semq.service.companion.section_states import FailingSection, ReportedStates, SectionStates


class Reported:
    """Both ends of the report."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._heard = ReportedStates()
        self.states = SectionStates(self._take, SystemClock())

    def _take(self, line: bytes) -> None:
        self.lines.append(line)
        self._heard.take(line)

    @property
    def failing(self) -> dict[str, FailingSection]:
        """The sections that fail now."""
        return self._heard.failing

    @property
    def counts(self) -> dict[str, Mapping[str, int]]:
        """The counts that the node knows."""
        return self._heard.counts
