"""The states of a companion's sections (folders, webhooks), as the companion writes and its node reads them."""

from collections.abc import Mapping

from semq.clock import SystemClock
from semq.service.companion.section_states import FailingSection, ReportedStates, SectionStates


class ConnectedStates:
    """The states at a companion (``states``), whose lines go directly to the ``ReportedStates`` of a node."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._reported = ReportedStates()
        self.states = SectionStates(self._read_line, SystemClock())

    def _read_line(self, line: bytes) -> None:
        self.lines.append(line)
        self._reported.update(line)

    @property
    def failing(self) -> dict[str, FailingSection]:
        """The sections that fail now."""
        return self._reported.failing

    @property
    def counts(self) -> dict[str, Mapping[str, int]]:
        """The counts that the node knows."""
        return self._reported.counts
