"""``semq check SUBJECT``: one figure of a node, compared with a limit for a warning and one for an alarm.

The exit statuses follow the Monitoring Plugins Development Guidelines: 0 ok, 1 warning, 2 critical, 3 unknown. An
error of class Unavailable is critical, any other error unknown.
"""

import re
from collections.abc import Awaitable, Callable
from enum import IntEnum, StrEnum
from functools import wraps
from typing import Annotated, Any, NamedTuple

import typer

from semq.cli.output.printer import Output
from semq.cli.session import Session, on_node
from semq.errors import BadInput, SemqError, Unavailable


class Level(IntEnum):
    """The result of a check and its exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Format(StrEnum):
    """Form of the printed result."""

    TEXT = "text"
    NAGIOS = "nagios"
    JSON = "json"
    PROMETHEUS = "prometheus"


class Reading(NamedTuple):
    """The figure of a subject."""

    value: float
    text: str


class Subject(NamedTuple):
    """A figure of the node, with default limits."""

    read: Callable[[Session, str], Awaitable[Reading]]  #: session, argument NAME (may be empty)
    unit: str  #: unit of performance data: s; empty for counts
    warning: float
    critical: float
    help: str
    is_worse_below: bool = False  #: small values are bad, such as days left


class CheckResult(NamedTuple):
    """The result of a check. Value and limits are None after an error."""

    subject: str
    level: Level
    text: str
    unit: str = ""
    value: float | None = None
    warning: float | None = None
    critical: float | None = None


FIGURES_OF_VERDICTS = {"ok": 0, "warning": 1, "failing": 2}


async def _node(session: Session, name: str) -> Reading:
    answer = await session.ask("node.health")
    faults = [row for row in answer["checks"] if row["verdict"] != "ok"]
    text = "; ".join(f"{row['check']}: {row['detail'] or row['verdict']}" for row in faults)
    return Reading(FIGURES_OF_VERDICTS[answer["verdict"]], text or f"{len(answer['checks'])} checks are ok")


async def _stuck(session: Session, name: str) -> Reading:
    rows = (await session.ask("stuck.causes"))["rows"]
    causes = ", ".join(f"{row['rows']} {row['cause']}" for row in rows[:5])
    return Reading(sum(row["rows"] for row in rows), causes or "nothing is stuck")


async def _failed(session: Session, name: str) -> Reading:
    count = (await session.ask("queue.census"))["failed"]
    return Reading(count, f"{count} documents failed and wait for an operator")


async def _oldest(session: Session, name: str) -> Reading:
    answer = await session.ask("queue.census")
    if not answer["pairs"]:
        return Reading(0, "no document is open")
    pair = min(answer["pairs"], key=lambda pair: pair["oldest_at"])
    age_s = max(0.0, (answer["as_of"] - pair["oldest_at"]) / 1000)
    return Reading(age_s, f"the oldest open document, for {pair['target']}, is {age_s:.0f} s old")


async def _certificate(session: Session, name: str) -> Reading:
    own = (await session.ask("node.status")).get("certificate")
    if not own:
        raise BadInput("The node has no certificate.")
    return Reading(own["days_left"], f"{own['days_left']} days left, {own['state']}")


async def _partner(session: Session, name: str) -> Reading:
    status = await session.ask("node.status")
    address = name if "." in name else f"1.{name}"
    if "partners" in status:
        online = {node: facts["online"] for node, facts in status["partners"].items()}
    else:
        online = {row["node"]: row["online"] for row in await session.ask("nodes.list")}
    if address not in online:
        raise BadInput("The node has no such partner. Name one: semq check partner NAME.", partner=name)
    if online[address] is None:
        error = SemqError("It is not known whether the partner is online: this node has no link to the hub.")
        raise error.with_remedy("`semq node status` shows the error of the link.")
    return Reading(0, "online") if online[address] else Reading(1, "offline")


async def _job(session: Session, name: str) -> Reading:
    rows = {row["name"]: row for row in await session.ask("job.list")}
    if name not in rows:
        raise BadInput(
            "The node has no such job. Name one: semq check job NAME.", job=name, jobs=" ".join(sorted(rows))
        )
    row = rows[name]
    if row["paused_at"]:
        return Reading(1, f"paused since {row['paused_at']}: {row['paused_why']}")
    return Reading(2, f"failed: {row['error']}") if row["error"] else Reading(0, f"last run {row['last_at']}")


# Subject | reader, unit, warning, critical, help
SUBJECTS = {
    "node": Subject(_node, "", 1, 2, "verdict of `semq node health`: 0 ok, 1 warning, 2 failing"),
    "stuck": Subject(_stuck, "", 1, 100, "number of stuck documents"),
    "failed": Subject(_failed, "", 1, 100, "number of failed documents, which wait for an operator"),
    "oldest": Subject(_oldest, "s", 3600, 86400, "age of the oldest document that has not ended, in seconds"),
    "certificate": Subject(_certificate, "", 14, 3, "days until the node's certificate ends", is_worse_below=True),
    "partner": Subject(_partner, "", 1, 1, "partner NAME: 0 online, 1 offline"),
    "job": Subject(_job, "", 1, 2, "scheduled job NAME: 0 ok, 1 paused, 2 failed"),
}
LIMIT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhd]?)")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
TABLE = "\n".join(f"  {name:<12} {subject.help}" for name, subject in SUBJECTS.items())
HELP = f"""Compare a figure of a node with two limits, for monitoring programs such as Nagios.

\b
{TABLE}

Exit status: 0 ok, 1 warning, 2 critical (also if the node cannot be reached), 3 unknown.
"""


async def _compare(
    session: Session,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help=" | ".join(SUBJECTS))],
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the partner or of the job.")] = "",
    warning: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="Limit of a warning: a number, or a time such as 30m.")
    ] = None,
    critical: Annotated[str | None, typer.Option(metavar="LIMIT", help="Limit of an alarm, in the same form.")] = None,
    format: Annotated[Format, typer.Option(help="Form of the printed result.")] = Format.TEXT,
) -> None:
    row = SUBJECTS.get(subject)
    if row is None:
        raise BadInput("There is no such subject of a check.", subject=subject, subjects=" ".join(SUBJECTS))
    limits = _limit(warning, row.warning), _limit(critical, row.critical)
    reading = await row.read(session, name)
    result = CheckResult(subject, _level(reading.value, *limits, row), reading.text, row.unit, reading.value, *limits)
    _finish(session.out, result, Format.JSON if session.out.as_json else format)


def _limit(text: str | None, default: float) -> float:
    if text is None:
        return default
    match = LIMIT.fullmatch(text)
    if match is None:
        raise BadInput("A limit is a number, or a time such as 30m.", limit=text)
    return float(match[1]) * SECONDS[match[2]]


def _level(value: float, warning: float, critical: float, row: Subject) -> Level:
    def reaches(limit: float) -> bool:
        return value <= limit if row.is_worse_below else value >= limit

    return Level.CRITICAL if reaches(critical) else Level.WARNING if reaches(warning) else Level.OK


def _finish(out: Output, result: CheckResult, format: Format) -> None:
    PRINTERS[format](out, result)
    raise typer.Exit(result.level.value)


def _as_text(out: Output, result: CheckResult) -> None:
    out.line(f"{result.level.name} {result.subject}: {result.text}")


def _as_nagios(out: Output, result: CheckResult) -> None:
    text = result.text.replace("|", "/")  # text after a bar is performance data
    data = ""
    if result.value is not None:
        limits = f"{result.warning:g};{result.critical:g}"
        data = f" | {result.subject}={result.value:g}{result.unit};{limits}"
    out.line(f"SEMQ {result.level.name} - {result.subject}: {text}{data}")


def _as_json(out: Output, result: CheckResult) -> None:
    out.data(result._asdict() | {"level": result.level.name, "status": result.level.value})


def _as_prometheus(out: Output, result: CheckResult) -> None:
    out.line("# TYPE semq_check_status gauge")
    out.line(f'semq_check_status{{subject="{result.subject}"}} {result.level.value}')
    if result.value is not None:
        out.line("# TYPE semq_check_value gauge")
        out.line(f'semq_check_value{{subject="{result.subject}"}} {result.value:.15g}')


PRINTERS: dict[Format, Callable[[Output, CheckResult], None]] = {
    Format.TEXT: _as_text,
    Format.NAGIOS: _as_nagios,
    Format.JSON: _as_json,
    Format.PROMETHEUS: _as_prometheus,
}
_compare_on_node = on_node(_compare)


@wraps(_compare_on_node)
def check(**arguments: Any) -> None:
    """Run a check. An error of SEMQ is a result, too: CRITICAL or UNKNOWN."""
    subject = arguments["subject"] if arguments["subject"] in SUBJECTS else "check"
    try:
        _compare_on_node(**arguments)
    except SemqError as error:
        level = Level.CRITICAL if isinstance(error, Unavailable) else Level.UNKNOWN
        format = Format.JSON if arguments["json"] else arguments["format"]
        _finish(Output(as_json=False), CheckResult(subject, level, str(error)), format)


check.__name__, check.__doc__ = "check", HELP
