"""Jobs that look for rows which applications write by SQL, also after a NOTIFY about them."""

from collections.abc import Callable

from semq.service.clockwork import Clockwork, ScheduledJob

# Polls find rows without a NOTIFY: written without the SQL functions, or while the store had no connection.
POLL_S = 10.0
AGAIN_S = 1.0  # pause before the next poll while rows wait, for instance because of a rate or a quota
NOTIFIED_RUNS, NOTIFIED_PAUSE_S = 10, 0.1  # further polls after a NOTIFY


class NotifiedJob:
    """A job and its runs after notices."""

    def __init__(self, name: str, poll: Callable[[], None], clockwork: Clockwork) -> None:
        self._name = name
        self._poll = poll
        self._clockwork = clockwork
        self._runs = 0  #: remaining runs after a notice

    def note(self) -> None:
        """Run now and some times soon: of transactions that commit at the same time, only one notifies."""
        self._runs = NOTIFIED_RUNS
        self._clockwork.hasten(self._name)

    def run(self) -> None:
        self._poll()
        if self._runs:
            self._runs -= 1
            self._clockwork.hasten(self._name, NOTIFIED_PAUSE_S)

    def job(self, poll_factor: float) -> ScheduledJob:
        # A poll ends the rest of a store.
        return ScheduledJob(self._name, AGAIN_S if poll_factor == 1.0 else POLL_S * poll_factor, self.run)
