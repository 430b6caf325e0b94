"""States of the sections of a companion: the folders or webhooks that fail, each with start and reason.

The companion writes a line of JSON to its standard output whenever a state changes; its node reads the lines
(``program``) and shows the failing sections in its health. A section without a line works.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from semq.clock import Clock
from semq.foreign_text import shown

ERROR_MAX = 500  # characters of an error in a line
SECTIONS_MAX = 1000  # that a node remembers of one companion


class FailingSection(msgspec.Struct, frozen=True):
    """A section that does not work now."""

    failures: int  #: in a row
    since: int  #: of the first of them, milliseconds since 1970
    error: str  #: of the last of them
    is_paused: bool  #: requests are made one at a time and with pauses: the circuit is open


class StateLine(msgspec.Struct, frozen=True):
    """One line: the state of a section; None if it works."""

    section: str
    failing: FailingSection | None


class SectionStates:
    """The states in the companion. ``write`` gets each line."""

    def __init__(self, write: Callable[[bytes], object], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._failing: dict[str, FailingSection] = {}

    def failed(self, section: str, error: Exception, *, is_paused: bool = False) -> None:
        """Count a failure of a section."""
        before = self._failing.get(section)
        since = before.since if before is not None else int(self._clock.wall().timestamp() * 1000)
        failures = before.failures + 1 if before is not None else 1
        state = FailingSection(failures, since, shown(str(error))[:ERROR_MAX], is_paused)
        self._failing[section] = state
        self._write(_encoded(StateLine(section, state)))

    def works(self, section: str) -> None:
        """Note a success of a section."""
        if self._failing.pop(section, None) is not None:
            self._write(_encoded(StateLine(section, None)))


class ReportedStates:
    """The failing sections in the node, by name."""

    def __init__(self) -> None:
        self.failing: dict[str, FailingSection] = {}

    def take(self, line: bytes) -> None:
        """Take over a line; anything else that a companion prints is ignored."""
        try:
            state = msgspec.json.decode(line, type=StateLine)
        except msgspec.DecodeError:
            return
        if state.failing is None:
            self.failing.pop(state.section, None)
        elif state.section in self.failing or len(self.failing) < SECTIONS_MAX:
            self.failing[state.section] = state.failing

    def status(self) -> dict[str, Any]:
        """Return the failing sections for ``node.status``."""
        return {name: msgspec.to_builtins(state) for name, state in sorted(self.failing.items())}


def _encoded(line: StateLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"
