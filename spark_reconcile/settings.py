"""What can be set about a reconciliation: the ``[reconcile]`` table of the configuration, with every default.

Unknown keys are errors, and durations have their unit in the name. The table is read here so that ``spark-submit``
needs nothing but this package and a TOML file; a node's own configuration hands its table to ``from_table``.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadSettings
from spark_reconcile.verdicts import VERDICT

# Bounds within which a run can still reckon with a number, and refuses what is none (such as nan).
Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
Days = Annotated[int, msgspec.Meta(ge=0, le=36_500)]
Few = Annotated[int, msgspec.Meta(ge=0, le=1_000)]
Part = Annotated[float, msgspec.Meta(ge=0)]


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a verdict is accepted. What is not stated is not limited."""

    max_count: Count | None = None
    max_rate: Part | None = None  #: of the messages of the date, or of the pair
    max_age_s: Count | None = None  #: of the oldest message with this verdict, when the evidence ends


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
    zone: str = "UTC"  #: of business dates; if not stated here, that of [extract] in the same file, as the cut-off
    cutoff: str = "00:00"  #: local time at which one business date ends and the next begins, see ``days``
    in_flight_s: Count = 900  #: a message whose last step is younger is IN_FLIGHT
    days_before: Few = 1  #: neighbouring dates whose extracts are read too
    days_after: Few = 1
    required: tuple[str, ...] = ()  #: nodes without which nothing is published; the hub's role is always required
    trust: str = ""  #: PEM file of authorities: every extract must then carry its node's signature
    carry_days: Days = 90  #: how long an open message of an earlier date is judged again
    thresholds: dict[str, Limit] = {}  #: by verdict; added to the defaults
    pair_thresholds: dict[str, dict[str, Limit]] = {}  #: by pair, such as "1.10008>1.56001", then by verdict
    plausible_weeks: Few = 4  #: so many earlier dates of the same weekday tell what is usual
    plausible_low: Part = 0.5  #: fewer messages than this part of their median are not believed
    plausible_high: Part = 2.0
    names: dict[str, str] = {}  #: of institutions, for the report, such as "1.10008" = "上海凌云贸易"
    csv_rows_max: Count = 1_000_000  #: of exceptions.csv and pairs.csv each; a spreadsheet ends at 1,048,576
    stories_max: Few = 12  #: messages shown with their story, per finding; besides some of every pair that is shown

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
    _ = settings.calendar  # its zone and cut-off are names of something
    return settings


def load(path: Path | None) -> Settings:
    """Settings from the ``[reconcile]`` table of a TOML file; the defaults without one. Raises BadSettings."""
    if path is None:
        return Settings()
    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings("The configuration file cannot be read.", file=str(path), why=str(error)[:200]) from error
    table, own = whole.get("reconcile", {}), whole.get("extract", {})
    if not isinstance(table, dict) or not isinstance(own, dict):
        raise BadSettings("[reconcile] or [extract] is not a table.", file=str(path))
    settings = from_table({name: own[name] for name in ("zone", "cutoff") if name in own} | table)
    beside = {name: _beside(path, table[name]) for name in ("extracts", "reports", "trust") if table.get(name)}
    return msgspec.structs.replace(settings, **beside)


def _beside(path: Path, folder: str) -> str:
    """A folder that is written relative to the file; addresses stay as they are."""
    return folder if "://" in folder else str((path.parent / folder).resolve())
