"""The states of a companion's sections."""

from collections.abc import Mapping

from semq.answers.status import FailingSection
from semq.clock import SystemClock
from semq.service.companion.section_states import ReportedStates, SectionStates


class ConnectedStates:
    """The states at a companion (``states``), and those at its node."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._reported = ReportedStates()
        self.states = SectionStates(self._read_line, SystemClock())

    def _read_line(self, line: bytes) -> None:
        self.lines.append(line)
        self._reported.update(line)

    @property
    def failing(self) -> dict[str, FailingSection]:
        return self._reported.failing

    @property
    def counts(self) -> dict[str, Mapping[str, int]]:
        return self._reported.counts
