"""States of the sections of a companion: failing folders or webhooks, and counts of events.

The companion writes a line of JSON to its standard output when a section fails or works again, and at most once a
second for the counts of a section. The node shows the failing sections in its health and the counts in its metrics.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from semq.answers.status import FailingSection
from semq.clock import Clock
from semq.foreign_text import shown

ERROR_MAX = 500  # characters of an error in a line
SECTIONS_MAX = 1000  # sections of one companion that its node remembers
COUNTS_S = 1.0  # between two lines about the counts of a section


class StateLine(msgspec.Struct, frozen=True):
    """A line: the state and the counts of one section."""

    section: str
    failing: FailingSection | None  #: None if the section works
    counts: Mapping[str, int] = {}  #: events since the start of the companion, by name


class SectionStates:
    """The states of all sections, in the companion."""

    def __init__(self, write: Callable[[bytes], object], clock: Clock) -> None:
        """``write`` writes a line to the node."""
        self._write = write
        self._clock = clock
        self._failing: dict[str, FailingSection] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._changed: set[str] = set()  #: sections whose counts are not reported yet

    def failed(self, section: str, error: Exception, *, is_paused: bool = False) -> None:
        before = self._failing.get(section)
        since = before.since if before is not None else int(self._clock.wall().timestamp() * 1000)
        failures = before.failures + 1 if before is not None else 1
        state = FailingSection(failures, since, shown(str(error))[:ERROR_MAX], is_paused)
        self._failing[section] = state
        self._report(section)

    def succeeded(self, section: str) -> None:
        if self._failing.pop(section, None) is not None:
            self._report(section)

    def count(self, section: str, event: str) -> None:
        """Count an event of a section. The running event loop reports the counts within ``COUNTS_S``."""
        self._counts.setdefault(section, Counter())[event] += 1
        if not self._changed:
            asyncio.get_running_loop().call_later(COUNTS_S, self._report_counts)
        self._changed.add(section)

    def _report_counts(self) -> None:
        changed, self._changed = self._changed, set()
        for section in sorted(changed):
            self._report(section)

    def _report(self, section: str) -> None:
        line = StateLine(section, self._failing.get(section), self._counts.get(section, {}))
        self._write(msgspec.json.encode(line) + b"\n")


class ReportedStates:
    """The failing sections and the counts of one companion, in its node, by section."""

    def __init__(self) -> None:
        self.failing: dict[str, FailingSection] = {}
        self.counts: dict[str, Mapping[str, int]] = {}

    def update(self, line: bytes) -> None:
        """Apply a line of the companion. Output that is no ``StateLine`` is ignored."""
        try:
            state = msgspec.json.decode(line, type=StateLine)
        except (ValueError, RecursionError):  # RecursionError: nested too deeply
            return
        if state.counts and (state.section in self.counts or len(self.counts) < SECTIONS_MAX):
            self.counts[state.section] = state.counts
        if state.failing is None:
            self.failing.pop(state.section, None)
        elif state.section in self.failing or len(self.failing) < SECTIONS_MAX:
            self.failing[state.section] = state.failing
