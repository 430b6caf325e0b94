"""What can be set about a reconciliation: the ``[reconcile]`` table of the configuration, with every default.

Unknown keys are errors, and durations have their unit in the name. The table is read here so that ``spark-submit``
needs nothing but this package and a TOML file; a node's own configuration hands its table to ``from_table``.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadSettings
from spark_reconcile.verdicts import VERDICT


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a verdict is accepted. What is not stated is not limited."""

    max_count: int | None = None
    max_rate: float | None = None  #: of the messages of the date, or of the pair
    max_age_s: int | None = None  #: of the oldest message with this verdict, when the evidence ends


NEVER = Limit(max_count=0)
DEFAULT_LIMITS = {
    "MISSING_AT_HUB": NEVER,
    "NOT_DELIVERED": NEVER,
    "DUPLICATE_DELIVERED": NEVER,
    "DIGEST_MISMATCH": NEVER,
    "UNKNOWN_ORIGIN": NEVER,
    "STATE_CONTRADICTION": NEVER,
    "QUARANTINED": NEVER,
    "ACK_NOT_RETURNED": Limit(max_rate=0.001),
    "REACK_NOT_RETURNED": Limit(max_rate=0.01),
    "PARKED": Limit(max_rate=0.001),
}


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ``[reconcile]`` table."""

    extracts: str = "var/extracts"  #: folder or address where the extracts of all nodes arrive
    reports: str = "var/reconcile"  #: folder or address of the runs
    zone: str = "UTC"
    cutoff: str = "00:00"  #: local time at which one business date ends and the next begins, see ``days``
    in_flight_s: int = 900  #: a message whose last step is younger is IN_FLIGHT
    days_before: int = 1  #: neighbouring dates whose extracts are read too
    days_after: int = 1
    required: tuple[str, ...] = ()  #: nodes without which nothing is published; the hub's role is always required
    trust: str = ""  #: PEM file of authorities: every extract must then carry its node's signature
    carry_days: int = 90  #: how long an open message of an earlier date is judged again
    thresholds: dict[str, Limit] = {}  #: by verdict; added to the defaults
    pair_thresholds: dict[str, dict[str, Limit]] = {}  #: by pair, such as "1.10008>1.56001", then by verdict
    plausible_weeks: int = 4  #: so many earlier dates of the same weekday tell what is usual
    plausible_low: float = 0.5  #: fewer messages than this part of their median are not believed
    plausible_high: float = 2.0
    names: dict[str, str] = {}  #: of institutions, for the report, such as "1.10008" = "上海凌云贸易"
    csv_rows_max: int = 1_000_000  #: a spreadsheet ends at 1,048,576
    stories_max: int = 12  #: messages shown with their story, per finding

    @property
    def calendar(self) -> Calendar:
        """Zone and cut-off."""
        return Calendar(self.zone, self.cutoff)

    @property
    def limits(self) -> dict[str, Limit]:
        """The thresholds that hold, with the defaults."""
        return {**DEFAULT_LIMITS, **self.thresholds}


def from_table(table: Mapping[str, Any]) -> Settings:
    """Settings from a ``[reconcile]`` table; raises BadSettings with the key that is wrong."""
    try:
        settings = msgspec.convert(dict(table), Settings)
    except msgspec.ValidationError as error:
        raise BadSettings(why=str(error)) from error
    verdicts = {*settings.thresholds, *(name for limits in settings.pair_thresholds.values() for name in limits)}
    unknown = sorted(verdicts - VERDICT.keys())
    if unknown:
        raise BadSettings("A threshold names no verdict.", verdict=unknown[0])
    if not all(pair.count(">") == 1 for pair in settings.pair_thresholds):
        raise BadSettings("A pair reads like 1.10008>1.56001.", pairs=sorted(settings.pair_thresholds)[:5])
    if min(settings.days_before, settings.days_after, settings.in_flight_s, settings.carry_days) < 0:
        raise BadSettings("A number of days or seconds is negative.")
    _ = settings.calendar  # its zone and cut-off are names of something
    return settings


def load(path: Path | None) -> Settings:
    """Settings from the ``[reconcile]`` table of a TOML file; the defaults without one. Raises BadSettings."""
    if path is None:
        return Settings()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("reconcile", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings("The configuration file cannot be read.", file=str(path), why=str(error)[:200]) from error
    if not isinstance(table, dict):
        raise BadSettings("[reconcile] is not a table.", file=str(path))
    settings = from_table(table)
    beside = {name: _beside(path, table[name]) for name in ("extracts", "reports", "trust") if table.get(name)}
    return msgspec.structs.replace(settings, **beside)


def _beside(path: Path, folder: str) -> str:
    """A folder that is written relative to the file; addresses stay as they are."""
    return folder if "://" in folder else str((path.parent / folder).resolve())
