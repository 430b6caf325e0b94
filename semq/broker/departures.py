"""The ways by which messages leave queues and exchanges without a consumer: counted and logged.

No confirmed message leaves otherwise. ``DEPARTURES`` has a row for each way; docs/applications/queues.md has the same
table for users. The log gets the first departure of each way and place at once, and the number of the following ones
at most every ``QUIET_S`` seconds.
"""

import logging
from collections import Counter
from enum import Enum
from typing import NamedTuple

from semq.broker.timers import Timer, Timers
from semq.clock import Clock
from semq.foreign_text import shown

log = logging.getLogger(__name__)

QUIET_S = 60.0
PLACES_MAX = 1000  # pairs of way and place that have lines of their own; others share the place OTHER_PLACES
OTHER_PLACES = "other queues and exchanges"
_SHOWN_MAX = 300  # characters of a place or routing key


class Departure(Enum):
    """A way to leave; the value is the name of its counter."""

    UNROUTED = "unrouted"
    RETURNED = "returned"
    REFUSED = "refused"
    EXPIRED = "expired"
    REJECTED = "rejected"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"
    DEAD_LETTERED = "dead_lettered"
    DEAD_LETTER_UNROUTED = "dead_letter_unrouted"
    DEAD_LETTER_REFUSED = "dead_letter_refused"
    DEAD_LETTER_RETAINED = "dead_letter_retained"
    CYCLE = "cycle"
    PURGED = "purged"
    QUEUE_DELETED = "queue_deleted"
    TRANSIENT = "transient"
    MISSING = "missing"


class DepartureRow(NamedTuple):
    """What happens, and the level of the line in the log; None: no line, because the message is not lost."""

    text: str
    level: int | None


DEPARTURES: dict[Departure, DepartureRow] = {
    # No sender or queue has asked for these.
    Departure.UNROUTED: DepartureRow("confirmed and dropped: no queue for it", logging.WARNING),
    Departure.DEAD_LETTER_UNROUTED: DepartureRow(
        "dropped: the dead-letter exchange is missing or leads to no queue", logging.WARNING
    ),
    Departure.DEAD_LETTER_REFUSED: DepartureRow("dropped: a full queue refused the dead letter", logging.WARNING),
    Departure.DEAD_LETTER_RETAINED: DepartureRow(
        "retained: its dead-letter exchange cannot put it into a queue", logging.WARNING
    ),
    Departure.CYCLE: DepartureRow("dropped: a cycle of dead-letter exchanges without a rejection", logging.WARNING),
    Departure.MISSING: DepartureRow("missing in the store", logging.ERROR),
    # A client or an argument has asked for these.
    Departure.REFUSED: DepartureRow("refused by the full queue, and nacked", logging.INFO),
    Departure.EXPIRED: DepartureRow("expired and dropped, without a dead-letter exchange", logging.INFO),
    Departure.REJECTED: DepartureRow("rejected and dropped, without a dead-letter exchange", logging.INFO),
    Departure.MAXLEN: DepartureRow("dropped from the full queue, without a dead-letter exchange", logging.INFO),
    Departure.DELIVERY_LIMIT: DepartureRow(
        "dropped after too many deliveries, without a dead-letter exchange", logging.INFO
    ),
    Departure.PURGED: DepartureRow("purged", logging.INFO),
    Departure.QUEUE_DELETED: DepartureRow("deleted with the queue", logging.INFO),
    Departure.TRANSIENT: DepartureRow("transient, and ended with the process", logging.INFO),
    # Not lost.
    Departure.RETURNED: DepartureRow("returned to its publisher (mandatory): no queue for it", None),
    Departure.DEAD_LETTERED: DepartureRow("moved by the dead-letter exchange", None),
}


class Departures:
    """The departures of one virtual host since the start."""

    def __init__(self, vhost: str, clock: Clock, timers: Timers) -> None:
        self.counts: Counter[Departure] = Counter()
        self._vhost = vhost
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._unlogged: dict[tuple[Departure, str], int] = {}  # since the last line

    def note(self, way: Departure, place: str, count: int = 1, routing_key: str | None = None) -> None:
        """Count ``count`` messages, and log them now or later. ``routing_key``: of the first message."""
        if not count:
            return
        self.counts[way] += count
        if DEPARTURES[way].level is None:
            return
        key = way, place
        if key not in self._unlogged and len(self._unlogged) >= PLACES_MAX:
            key = way, OTHER_PLACES
        if key in self._unlogged:
            self._unlogged[key] += count
            return
        self._unlogged[key] = 0
        self._log(*key, count, "" if routing_key is None else f" (routing key {shown(routing_key, _SHOWN_MAX)!r})")
        self._watch()

    def note_of_queue(self, way: Departure, queue: str, count: int = 1, routing_key: str | None = None) -> None:
        self.note(way, f"queue {queue}", count, routing_key)

    def log_rest(self) -> None:
        """Log the number of departures since the last line of each way and place."""
        self._timer = None
        unlogged, self._unlogged = self._unlogged, {}
        for (way, place), count in unlogged.items():
            if count:
                self._log(way, place, count, f" within {QUIET_S:.0f} s")
                self._unlogged[way, place] = 0
        if self._unlogged:
            self._watch()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._timers.at(self._clock.monotonic() + QUIET_S, self.log_rest)

    def _log(self, way: Departure, place: str, count: int, remark: str) -> None:
        row, noun = DEPARTURES[way], "message was" if count == 1 else "messages were"
        assert row.level is not None
        log.log(
            row.level, "%s in vhost %s: %d %s %s%s", shown(place, _SHOWN_MAX), shown(self._vhost, _SHOWN_MAX), count,
            noun, row.text, remark,
        )  # fmt: skip
