"""Business dates in a configured time zone with a configured cut-off.

A business date lasts from one cut-off to the next and is named after the calendar day that contains most of it. With a
cut-off before noon, the date begins on that day: with 04:00 it lasts from 04:00 to 04:00 of the next day. With a
cut-off at noon or later, it begins on the day before: with 18:00, messages accepted from 18:00 on belong to the next
date. Dates with a clock change do not last 24 hours. All instants are milliseconds since 1970 UTC.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from semq.clock import Clock
from spark_reconcile.errors import BadRunRequest, BadSettings

DAY_MS = 86_400_000
_NOON = time(12)
_DAY = timedelta(days=1)


class Window(NamedTuple):
    """A period from ``start`` (inclusive) to ``end`` (exclusive), milliseconds since 1970 UTC."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Calendar:
    """A time zone and a cut-off. Raises BadSettings if the zone is unknown or the cut-off is no local time of day."""

    zone: str = "UTC"
    cutoff: str = "00:00"

    def __post_init__(self) -> None:
        self._zone()
        self._cutoff()

    def window(self, day: date) -> Window:
        return Window(self._start_of(day), self._start_of(day + _DAY))

    def date_of(self, at: int) -> date:
        day = datetime.fromtimestamp(at / 1000, UTC).astimezone(self._zone()).date()
        while at < self._start_of(day):
            day -= _DAY
        while at >= self._start_of(day + _DAY):
            day += _DAY
        return day

    def local(self, at: int) -> str:
        """Format an instant in this time zone, with its offset."""
        moment = datetime.fromtimestamp(at / 1000, UTC).astimezone(self._zone())
        return moment.isoformat(sep=" ", timespec="milliseconds")

    def _start_of(self, day: date) -> int:
        cutoff = self._cutoff()
        first_day = day - _DAY if cutoff >= _NOON else day
        return int(datetime.combine(first_day, cutoff, self._zone()).timestamp() * 1000)

    def _zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise BadSettings("The time zone is not known.", zone=self.zone[:80]) from error

    def _cutoff(self) -> time:
        try:
            cutoff = time.fromisoformat(self.cutoff)
        except ValueError as error:
            raise BadSettings("The cut-off is not a time of day such as 18:00.", cutoff=self.cutoff[:40]) from error
        if cutoff.tzinfo is not None:
            raise BadSettings(
                "The cut-off must not have an offset: it is a time of day in the time zone.", cutoff=self.cutoff
            )
        return cutoff


def parse_date(text: str) -> date:
    """Read a business date such as 2026-11-20; raises BadRunRequest."""
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise BadRunRequest("A business date reads like 2026-11-20.", given=text[:40]) from error
    if not 2000 <= day.year <= 9000:  # neighbours of a date must be dates too
        raise BadRunRequest("A business date lies between the years 2000 and 9000.", given=text)
    return day


def which_date(text: str | None, calendar: Calendar, clock: Clock) -> date:
    """Return the business date of ``text``: a date, ``today``, or None for the last completed one.

    Raises BadRunRequest.
    """
    today = calendar.date_of(int(clock.wall().timestamp() * 1000))
    if text == "today":
        return today
    return parse_date(text) if text else today - _DAY


def neighbours(day: date, before: int = 1, after: int = 1) -> list[date]:
    """Return a business date with ``before`` dates before it and ``after`` dates after it, oldest first."""
    return [day + _DAY * step for step in range(-before, after + 1)]
