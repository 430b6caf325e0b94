"""Steps are always measured, and shown on a terminal only."""

import io
import threading

import pytest

from semq.clock import SystemClock
from spark_reconcile import progress
from spark_reconcile.progress import Progress


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.has_shown_tasks = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "tasks" in text:
            self.has_shown_tasks.set()
        return super().write(text)


class FakeTracker:
    def getActiveStageIds(self) -> list[int]:  # noqa: N802 Spark's name
        return [1, 2, 3]

    def getStageInfo(self, number: int) -> object:  # noqa: N802 Spark's name
        return None if number == 2 else type("Info", (), {"numTasks": 8, "numCompletedTasks": number})()


def test_without_a_terminal_nothing_is_shown() -> None:
    stream = io.StringIO()
    shown = Progress(SystemClock(), stream)
    with shown.step("one"):
        pass
    assert stream.getvalue() == ""
    assert list(shown.seconds) == ["one"]


def test_on_a_terminal_a_line_shows_the_progress_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REFRESH_S", 0.001)
    terminal = Terminal()
    shown = Progress(SystemClock(), terminal)
    context = type("Context", (), {"statusTracker": lambda self: FakeTracker()})()
    shown.session = type("Session", (), {"_sc": context})()
    with shown.step("gather facts"):
        assert terminal.has_shown_tasks.wait(30)
    assert "4 of 16 tasks" in terminal.getvalue()
    assert terminal.getvalue().endswith("s\n")


def test_a_step_that_fails_is_measured_too() -> None:
    shown = Progress(SystemClock(), io.StringIO())
    with pytest.raises(RuntimeError), shown.step("one"):
        raise RuntimeError
    assert list(shown.seconds) == ["one"]
