"""``semq check SUBJECT …``: figures of a node, compared with a limit for a warning and one for an alarm.

The exit statuses follow the Monitoring Plugins Development Guidelines: 0 ok, 1 warning, 2 critical, 3 unknown. An
error of class Unavailable is critical, any other error unknown. Of several subjects the worst one counts.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
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
    is_named: bool = False  #: the next argument is its name


class WantedCheck(NamedTuple):
    """A subject of the command, and its name, which may be empty."""

    subject: str
    name: str = ""


class CheckResult(NamedTuple):
    """The result of a check. Value and limits are None after an error."""

    subject: str
    name: str
    level: Level
    text: str
    unit: str = ""
    value: float | None = None
    warning: float | None = None
    critical: float | None = None


FIGURES_OF_VERDICTS = {"ok": 0, "warning": 1, "failing": 2}


async def _node(session: Session, name: str) -> Reading:
    from semq.answers.status import NodeHealth

    answer = await session.read(NodeHealth, "node.health")
    faults = [check for check in answer.checks if check.verdict != "ok"]
    text = "; ".join(f"{check.name}: {check.detail or check.verdict}" for check in faults)
    return Reading(FIGURES_OF_VERDICTS[answer.verdict], text or f"{len(answer.checks)} checks are ok")


async def _stuck(session: Session, name: str) -> Reading:
    rows = (await session.ask("stuck.causes"))["rows"]
    causes = ", ".join(f"{row['rows']} {row['cause']}" for row in rows[:5])
    return Reading(sum(row["rows"] for row in rows), causes or "nothing is stuck")


async def _failed(session: Session, name: str) -> Reading:
    count = (await session.ask("queue.census"))["failed"]
    return Reading(count, f"{count} documents failed and wait for an operator")


async def _oldest(session: Session, name: str) -> Reading:
    answer = await session.ask("queue.census")
    if answer["oldest"] is None:
        return Reading(0, "no document is open")
    age_s = max(0.0, (answer["as_of"] - answer["oldest"]["at"]) / 1000)
    return Reading(age_s, f"the oldest open document, {answer['oldest']['where']}, is {age_s:.0f} s old")


async def _certificate(session: Session, name: str) -> Reading:
    from semq.answers.status import NodeStatus

    own = (await session.read(NodeStatus, "node.status")).certificate
    if own is None:
        raise BadInput("The node has no certificate.")
    return Reading(own.days_left, f"{own.days_left} days left, {own.state}")


async def _partner(session: Session, name: str) -> Reading:
    from semq.answers.status import NodeStatus

    status = await session.read(NodeStatus, "node.status")
    address = name if "." in name else f"1.{name}"
    if status.partners is not None:
        online = {node: partner.online for node, partner in status.partners.items()}
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
    "partner": Subject(_partner, "", 1, 1, "partner NAME: 0 online, 1 offline", is_named=True),
    "job": Subject(_job, "", 1, 2, "scheduled job NAME: 0 ok, 1 paused, 2 failed", is_named=True),
}
LIMIT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhd]?)")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
FROM_BEST_TO_WORST = (Level.OK, Level.WARNING, Level.UNKNOWN, Level.CRITICAL)
TABLE = "\n".join(f"  {name:<12} {subject.help}" for name, subject in SUBJECTS.items())
HELP = f"""Compare figures of a node with two limits each, for monitoring programs such as Nagios.

\b
{TABLE}

Exit status: 0 ok, 1 warning, 2 critical (also if the node cannot be reached), 3 unknown; of several subjects the worst.
"""


async def _compare(
    session: Session,
    words: Annotated[list[str], typer.Argument(metavar="SUBJECT [NAME]...", help=" | ".join(SUBJECTS))],
    warning: Annotated[
        str | None,
        typer.Option(metavar="LIMIT", help="Limit of a warning, for one subject: a number, or a time such as 30m."),
    ] = None,
    critical: Annotated[str | None, typer.Option(metavar="LIMIT", help="Limit of an alarm, in the same form.")] = None,
    format: Annotated[Format, typer.Option(help="Form of the printed result.")] = Format.TEXT,
) -> None:
    wanted = list(_wanted(words))
    if len(wanted) > 1 and (warning, critical) != (None, None):
        raise BadInput("Limits are for one subject: run one check for each.", subjects=" ".join(words))
    results = [await _check(session, check, warning, critical) for check in wanted]
    _finish(session.out, results, Format.JSON if session.out.as_json else format)


def _wanted(words: Sequence[str]) -> Iterator[WantedCheck]:
    rest = iter(words)
    for subject in rest:
        if subject not in SUBJECTS:
            raise BadInput("There is no such subject of a check.", subject=subject, subjects=" ".join(SUBJECTS))
        yield WantedCheck(subject, next(rest, "") if SUBJECTS[subject].is_named else "")


async def _check(session: Session, wanted: WantedCheck, warning: str | None, critical: str | None) -> CheckResult:
    row = SUBJECTS[wanted.subject]
    try:
        limits = _limit(warning, row.warning), _limit(critical, row.critical)
        reading = await row.read(session, wanted.name)
    except SemqError as error:
        return _failed_check(wanted, error)
    return CheckResult(*wanted, _level(reading.value, *limits, row), reading.text, row.unit, reading.value, *limits)


def _failed_check(wanted: WantedCheck, error: SemqError) -> CheckResult:
    """Return an error of SEMQ as a result: CRITICAL or UNKNOWN."""
    return CheckResult(*wanted, Level.CRITICAL if isinstance(error, Unavailable) else Level.UNKNOWN, str(error))


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


def _worst(results: Sequence[CheckResult]) -> Level:
    return max((result.level for result in results), key=FROM_BEST_TO_WORST.index)


def _finish(out: Output, results: Sequence[CheckResult], format: Format) -> None:
    PRINTERS[format](out, results)
    raise typer.Exit(_worst(results).value)


def _as_text(out: Output, results: Sequence[CheckResult]) -> None:
    for result in results:
        out.line(f"{result.level.name} {result.subject}: {result.text}")


def _as_nagios(out: Output, results: Sequence[CheckResult]) -> None:
    texts = [
        f"{result.subject}: {result.text}".replace("|", "/") for result in results
    ]  # after a bar: performance data
    data = [
        f"{_label(result)}={result.value:g}{result.unit};{result.warning:g};{result.critical:g}"
        for result in results
        if result.value is not None
    ]
    bar = " | " if data else ""
    out.line(f"SEMQ {_worst(results).name} - {'; '.join(texts)}{bar}{' '.join(data)}")


def _label(result: CheckResult) -> str:
    return f"{result.subject}_{result.name}" if result.name else result.subject


def _as_json(out: Output, results: Sequence[CheckResult]) -> None:
    rows = [result._asdict() | {"level": result.level.name, "status": result.level.value} for result in results]
    out.data(rows if len(rows) > 1 else rows[0])


def _as_prometheus(out: Output, results: Sequence[CheckResult]) -> None:
    """Print samples. Those of one check may be appended to those of others, and a file may have the lines HELP and
    TYPE of a name once only: they are printed only for several checks.
    """
    families: tuple[tuple[str, str, list[float | None]], ...] = (
        ("semq_check_status", "0 ok, 1 warning, 2 critical, 3 unknown.", [result.level.value for result in results]),
        ("semq_check_value", "The figure that was compared with the limits.", [result.value for result in results]),
    )
    for name, text, values in families:
        if len(results) > 1:
            out.line(f"# HELP {name} {text}")
            out.line(f"# TYPE {name} gauge")
        for result, value in zip(results, values, strict=True):
            if value is not None:
                out.line(f"{name}{{{_labels(result)}}} {value:.15g}")


def _labels(result: CheckResult) -> str:
    labels = (("subject", result.subject), ("name", result.name))
    return ",".join(f'{label}="{_escaped(value)}"' for label, value in labels if value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


PRINTERS: dict[Format, Callable[[Output, Sequence[CheckResult]], None]] = {
    Format.TEXT: _as_text,
    Format.NAGIOS: _as_nagios,
    Format.JSON: _as_json,
    Format.PROMETHEUS: _as_prometheus,
}
_compare_on_node = on_node(_compare)


@wraps(_compare_on_node)
def check(**arguments: Any) -> None:
    """Run checks. An error of SEMQ is a result, too: CRITICAL or UNKNOWN, of each subject."""
    try:
        _compare_on_node(**arguments)
    except SemqError as error:
        format = Format.JSON if arguments["json"] else arguments["format"]
        try:
            wanted = list(_wanted(arguments["words"]))
        except BadInput:
            wanted = [WantedCheck("check")]
        _finish(Output(as_json=False), [_failed_check(check, error) for check in wanted], format)


check.__name__, check.__doc__ = "check", HELP
