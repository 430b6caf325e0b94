"""The settings of the reconciliation: the ``[reconcile]`` table of the configuration, with all defaults.

``load`` does not use ``semq.config``, so that the file given to ``spark-submit`` needs no other tables of a node.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from semq.translations import CHOICES
from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadSettings
from spark_reconcile.judgement.verdicts import VERDICT

Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
Days = Annotated[int, msgspec.Meta(ge=0, le=36_500)]
SmallCount = Annotated[int, msgspec.Meta(ge=0, le=1_000)]
Ratio = Annotated[float, msgspec.Meta(ge=0)]


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Upper bounds for the messages with one verdict. None: no bound."""

    max_count: Count | None = None
    max_rate: Ratio | None = None  #: highest share of the messages of the date or of the pair
    #: highest age, from acceptance by the sender's clock to the time up to which all delivered ledgers are complete
    max_age_s: Count | None = None


class MailServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mail server, and the addresses of the report."""

    sender: str
    to: tuple[str, ...]
    server: str = "localhost"
    port: Count = 25
    starttls: bool = False
    user: str = ""
    password_variable: str = "SEMQ_MAIL_PASSWORD"  #: environment variable with the password of ``user``


NONE_ACCEPTED = Limit(max_count=0)
DEFAULT_LIMITS = {
    "MISSING_AT_HUB": NONE_ACCEPTED,
    "NOT_DELIVERED": NONE_ACCEPTED,
    "DUPLICATE_DELIVERED": NONE_ACCEPTED,
    "DIGEST_MISMATCH": NONE_ACCEPTED,
    "UNKNOWN_ORIGIN": NONE_ACCEPTED,
    "STATE_CONTRADICTION": NONE_ACCEPTED,
    "QUARANTINED": NONE_ACCEPTED,
    "ACK_NOT_RETURNED": Limit(max_rate=0.001),
    "REACK_NOT_RETURNED": Limit(max_rate=0.01),
    "PARKED": Limit(max_rate=0.001),
}


class ReconcileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ``[reconcile]`` table."""

    # Relative paths begin at the folder of the configuration file; without a file, at the working directory.
    extracts: str = "var/extracts"  #: folder or address of the extracts of all nodes
    reports: str = "var/reconcile"  #: folder or address of the runs
    #: copy of metrics.prom of the newest date, for Prometheus' textfile collector; default: reports/semq-reconcile.prom
    metrics_file: str = ""
    zone: str = "UTC"  #: time zone of business dates; default: as in [extract]
    cutoff: str = "00:00"  #: local time at which a business date ends; default: as in [extract]
    in_flight_s: Count = 900  #: time after its last step for which an incomplete message is IN_FLIGHT
    days_before: SmallCount = 1  #: earlier dates whose extracts a run also reads
    days_after: SmallCount = 1  #: later dates whose extracts a run also reads
    hub: bool = True  #: false: the institutions have no hub
    required: tuple[
        str, ...
    ] = ()  #: nodes or ledgers that must have delivered, unless --allow-partial; a hub always must
    trust: str = ""  #: PEM file of authorities; if set, every extract needs its node's signature
    carry_days: Days = 90  #: days for which an open message is judged again
    thresholds: dict[str, Limit] = {}  #: by verdict; a table replaces the whole default of its verdict
    pair_thresholds: dict[str, dict[str, Limit]] = {}  #: by pair, such as "1.10008>1.56001", then by verdict
    plausible_weeks: SmallCount = 4  #: earlier dates of the same weekday that define the usual volume
    plausible_low: Ratio = 0.5  #: fraction of the usual volume below which a volume is implausible
    plausible_high: Ratio = 2.0  #: multiple of the usual volume above which a volume is implausible
    names: dict[str, str] = {}  #: names of institutions for the report, such as "1.10008" = "上海凌云贸易"
    contacts: dict[str, str] = {}  #: whom to call at an institution, such as "1.10008" = "+86 21 5555 0100"
    language: str = "en"  #: language of the report that is sent, and of partners' pages: en or zh
    languages: dict[str, str] = {}  #: languages of single partners' pages, such as "1.10008" = "zh"
    csv_rows_max: Count = 1_000_000  #: rows of exceptions.csv, and of pairs.csv; spreadsheets take at most 1,048,576
    at: str = "04:15"  #: local time at which ``semq reconcile schedule`` begins a night
    catch_up_days: Annotated[int, msgspec.Meta(ge=1, le=366)] = (
        7  #: dates that a night looks at: missed, or with late extracts
    )
    extracts_keep_days: Days = 100  #: dates after which a night removes extracts; 0: never
    runs_keep_days: Days = 400  #: dates after which a night removes runs; 0: never
    superseded_keep_days: Days = 30  #: days after which a night removes runs that were repeated; 0: never
    mail: MailServer | None = None  #: where a night sends its report
    webhook: str = ""  #: URL to which a night posts its result as JSON
    stories_max: SmallCount = 12  #: messages of each finding whose history the report shows

    @property
    def calendar(self) -> Calendar:
        return Calendar(self.zone, self.cutoff)

    @property
    def limits(self) -> dict[str, Limit]:
        return {**DEFAULT_LIMITS, **self.thresholds}


def from_table(table: Mapping[str, object]) -> ReconcileSettings:
    """Read settings from a ``[reconcile]`` table. Raises BadSettings."""
    try:
        settings = msgspec.convert(dict(table), ReconcileSettings)
    except msgspec.ValidationError as error:
        raise BadSettings(why=str(error)) from error
    verdicts = {*settings.thresholds, *(name for limits in settings.pair_thresholds.values() for name in limits)}
    unknown = sorted(verdicts - VERDICT.keys())
    if unknown:
        raise BadSettings("A threshold has an unknown verdict.", verdict=unknown[0])
    if not all(pair.count(">") == 1 for pair in settings.pair_thresholds):
        raise BadSettings("A pair reads like 1.10008>1.56001.", pairs=sorted(settings.pair_thresholds)[:5])
    unknown = sorted({settings.language, *settings.languages.values()} - CHOICES.keys())
    if unknown:
        raise BadSettings("There is no report in this language.", language=unknown[0][:20])
    _ = settings.calendar  # raises for an unknown zone or cut-off
    return settings


def load(path: Path | None) -> ReconcileSettings:
    """Read settings from a TOML file; without a file, return the defaults. Raises BadSettings."""
    if path is None:
        return ReconcileSettings()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings("The configuration file cannot be read.", file=str(path), why=str(error)[:200]) from error
    table, extract_table = document.get("reconcile", {}), document.get("extract", {})
    if not isinstance(table, dict) or not isinstance(extract_table, dict):
        raise BadSettings("[reconcile] or [extract] is not a table.", file=str(path))
    calendar = {name: extract_table[name] for name in ("zone", "cutoff") if name in extract_table}
    settings = from_table(calendar | table)
    given = {name: getattr(settings, name) for name in ("extracts", "reports", "trust", "metrics_file")}
    resolved = {name: _resolved(path, place) for name, place in given.items() if place}
    return msgspec.structs.replace(settings, **resolved)


def _resolved(config: Path, place: str) -> str:
    """Return a path as an absolute one, and an address unchanged."""
    return place if "://" in place else str((config.parent / place).resolve())
