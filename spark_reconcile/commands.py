"""The command line of the reconciliation: ``semq reconcile`` and ``python -m spark_reconcile``.

``main`` takes the arguments and returns the exit code. Messages go to stderr; with ``--json`` the last line on stdout
is one JSON object.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from semq.clock import Clock, SystemClock
from semq.errors import Misconfigured, SemqError, Unavailable
from semq.foreign_text import json_text, shown
from spark_reconcile.days import parse_date, which_date
from spark_reconcile.errors import BadExtract, BadRunRequest, BeingRun, SourcesMissing, StorageAway
from spark_reconcile.run import runs
from spark_reconcile.settings import ReconcileSettings, load
from spark_reconcile.storage import Place

if TYPE_CHECKING:
    from spark_reconcile.run.job import RunResult

Arguments = argparse.Namespace
CONFIG_VARIABLE = "SEMQ_CONFIG"  # environment variable of all commands of semq
DESCRIPTION = "Compare what sender, hub and receiver recorded about each document of a business date."
EXIT_STATUSES = (
    "exit status: 0 published and thresholds met, other commands: success; 3 a threshold is exceeded, the volume is "
    "implausible, or dates of a backfill failed in different ways; 4 a required source or a run is missing; 5 another "
    "process reconciles this date or writes this extract; 7 published without some sources; 65 an extract or a repair "
    "list is unusable; 2 usage; 69 database, node, storage, Java or Spark unavailable; 78 settings; 1 refused or failed"
)
CommandResult = tuple[int, runs.Facts]  #: exit code and JSON result


@dataclass(frozen=True, slots=True)
class ReconcileCommand:
    """A row of the table of commands."""

    name: str
    function: Callable[[Arguments, ReconcileSettings, Clock], CommandResult]
    options: tuple[str, ...]
    help: str


# Options and positional arguments: name, arguments of ``add_argument``.
OPTIONS: dict[str, Mapping[str, Any]] = {
    "--config": {"type": Path, "metavar": "FILE", "help": "the node's TOML file, with the settings in [reconcile]; "
                 f"default: {CONFIG_VARIABLE}"},
    "--institution": {"metavar": "ID", "help": "the institution, if the file has several"},
    "--extracts": {"metavar": "FOLDER", "help": "folder or address of the extracts"},
    "--reports": {"metavar": "FOLDER", "help": "folder or address of the runs"},
    "--zone": {"metavar": "ZONE", "help": "time zone of business dates"},
    "--cutoff": {"metavar": "HH:MM", "help": "time of day at which a business date ends"},
    "--json": {"action": "store_true", "help": "print one JSON object at the end"},
    "--business-date": {"metavar": "DATE", "help": "such as 2026-11-20, or today; default: the last completed date"},
    "--from": {"metavar": "DATE", "dest": "first", "required": True, "help": "first business date"},
    "--to": {"metavar": "DATE", "dest": "last", "required": True, "help": "last business date"},
    "--only-missing": {"action": "store_true", "help": "skip dates whose published run began after the end of the date,"
                       " unless an earlier date was run since"},
    "--allow-partial": {"action": "store_true", "help": "ignore extracts that are missing or unusable"},
    "--require-all": {"action": "store_true", "help": "publish nothing if lines of the date name a ledger or node that "
                      "has not delivered its extract"},
    "--master": {"metavar": "URL", "help": "Spark master; default: local[*]; ignored under spark-submit"},
    "--memory": {"metavar": "SIZE", "help": "heap of a local run, such as 4g; ignored under spark-submit"},
    "--database-url": {"metavar": "URL", "help": "the node's database; default: SEMQ_DATABASE_URL, else "
                       "that of --config"},
    "--node": {"metavar": "NODE", "help": "extract: the node of the ledger, such as 1.10008, instead of the node "
               "of --config; collect, apply: amqp://user:password@host:port"},
    "--nightly": {"action": "store_true", "help": "extract each date of the last week that has no complete extract, or "
                  "whose lines have changed since"},
    "--user": {"default": "", "metavar": "NAME", "help": "read the inbox of this user; default: the institution's"},
    "--idle": {"type": float, "default": 10.0, "metavar": "S", "help": "end when nothing has arrived for S seconds"},
    "--run": {"default": "current", "metavar": "NAME", "help": "run with the repair list; default: the current run"},
    "--list": {"metavar": "FOLDER", "help": "a copy of a run's repair folder; replaces --business-date and --run"},
    "--yes": {"action": "store_true", "help": "apply the list; without --yes it is only printed"},
    "--store": {"metavar": "ID.ID", "default": "1.1", "help": "with --node: its store, semq_id.semq_db_id"},
    "--role": {"choices": ("local", "platform"), "default": "local", "help": "with --node: the kind of this node"},
    "--salt-file": {"type": Path, "metavar": "FILE", "help": "secret for the hashes of AppKeys; default: no hashes"},
    "--type-in-clear": {"action": "store_true", "help": "include domain, type and subtype of AppKeys in clear"},
    "--signed-by": {"action": "append", "default": [], "type": Path, "metavar": "FILE",
                    "help": "a node's TOML file; the node's key signs its changed extract; repeatable"},
    "--out": {"metavar": "FOLDER", "help": "folder for a Parquet table of all changed documents"},
    "old": {"help": "name of a run, or current"},
    "new": {"help": "name of a run, or current"},
}  # fmt: skip
_COMMON_OPTIONS = ("--config", "--institution", "--extracts", "--reports", "--zone", "--cutoff", "--json")
_SPARK_OPTIONS = ("--master", "--memory")
_RUN_OPTIONS = ("--allow-partial", "--require-all", *_SPARK_OPTIONS)


def flush() -> None:
    """Write what is still in the buffers of stdout and stderr."""
    sys.stdout.flush()
    sys.stderr.flush()


def _print_message(text: str) -> None:
    print(shown(text), file=sys.stderr)


def _run(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    result = _reconcile(_date(arguments, settings, clock), arguments, settings, clock)
    counts = ", ".join(f"{name} {count:,}" for name, count in result.verdicts.items() if count)
    _print_message(f"{result.business_date}: {result.outcome}; {result.messages:,} documents: {counts or 'none'}")
    _print_message(f"report: {result.report}")
    return result.exit_code, result.facts()


def _reconcile(day: date, arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> "RunResult":
    # Imported here because Spark's import is slow: `status` and `--help` answer immediately.
    from spark_reconcile.extracts.signatures import signer_of_config, verifier
    from spark_reconcile.progress import Progress
    from spark_reconcile.run.job import RunRequest, run

    request = RunRequest(
        day,
        arguments.allow_partial,
        arguments.require_all,
        verify=verifier(Path(settings.trust), clock) if settings.trust else None,
        sign=signer_of_config(arguments.config, arguments.institution),
        master=arguments.master,
        memory=arguments.memory,
    )
    result = run(settings, request, clock, Progress(clock))
    try:
        runs.copy_metrics(Place.at(settings.reports), day, settings.metrics_file)
    except OSError as error:  # the run is published; the alert on an old success calls if this goes on
        _print_message(f"{settings.metrics_file} was not written: {error.strerror or error}")
    return result


def _backfill(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    first, last = parse_date(arguments.first), parse_date(arguments.last)
    if last < first or (last - first).days > 3660:
        raise BadRunRequest(
            "The first date is after the last one, or there are more than 3661 dates.", first=str(first), last=str(last)
        )
    days = [first + timedelta(days=step) for step in range((last - first).days + 1)]
    return _run_dates(days, arguments, settings, clock, only_missing=arguments.only_missing)


def _run_dates(
    days: Iterable[date], arguments: Arguments, settings: ReconcileSettings, clock: Clock, *, only_missing: bool
) -> CommandResult:
    from spark_reconcile.nightly import is_up_to_date

    results: list[runs.Facts] = []
    for day in days:
        if only_missing and is_up_to_date(settings, day):
            results.append({"business_date": day.isoformat(), "outcome": "kept", "exit_code": 0})
        else:
            results.append(_backfill_date(day, arguments, settings, clock))
        _print_message("{business_date}: {outcome}".format(**results[-1]))
    code = _common_exit_code([int(result["exit_code"]) for result in results if result["exit_code"]])
    return code, {"outcome": "good" if code == 0 else "not_good", "exit_code": code, "runs": results}


def _nightly(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile import nightly, notice

    last = which_date(None, settings.calendar, clock)
    code, facts = _run_dates(nightly.due(settings, last), arguments, settings, clock, only_missing=True)
    for name in nightly.remove_old(settings, last):
        _print_message(f"removed: {name}")
    results = [_known_result(result, settings) if result["outcome"] == "kept" else result for result in facts["runs"]]
    for fault in notice.send(settings, [result for result in results if result]):
        _print_message(fault)
        code = code or 69
    return code, {**facts, "exit_code": code}


def _known_result(kept: runs.Facts, settings: ReconcileSettings) -> runs.Facts:
    run = runs.current(Place.at(settings.reports), date.fromisoformat(str(kept["business_date"])))
    return run.result if run is not None else {}


def _schedule(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile.nightly import keep_schedule

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        keep_schedule(settings, arguments.given, clock, _print_message)
    return 0, {"outcome": "stopped", "exit_code": 0}


def _common_exit_code(failures: Sequence[int]) -> int:
    """Return 0 without failures, 3 if their codes differ, else their code. ``failures``: exit codes without zeros."""
    if not failures:
        return 0
    return failures[0] if len(set(failures)) == 1 else 3


def _backfill_date(day: date, arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> runs.Facts:
    try:
        facts = _reconcile(day, arguments, settings, clock).facts()
    except SemqError as error:
        _print_message(error.advice())
        failed = {"outcome": outcome_of(error), "exit_code": exit_code_of(error), "error": error.advice()}
        return {"business_date": day.isoformat(), **failed}
    return {
        name: facts[name] for name in ("business_date", "outcome", "exit_code", "run", "messages", "verdicts", "report")
    }


def _status(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    reports = Place.at(settings.reports)
    dates = []
    for day in runs.dates(reports):
        current = runs.current(reports, day)
        rows = [
            {"run": run.name, **{name: run.result.get(name) for name in ("outcome", "exit_code", "messages", "error")}}
            for run in runs.of_date(reports, day)
        ]
        dates.append({"business_date": day.isoformat(), "current": current.name if current else None, "runs": rows})
        for row in rows:
            star = "*" if current and row["run"] == current.name else " "
            _print_message(f"{day} {star} {row['run']} {row['outcome'] or 'unfinished'} {row['messages'] or 0:,}")
    if not dates:
        _print_message(f"There are no runs in {reports}.")
    return 0, {"dates": dates}


def _diff(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile.run.diff import changed_verdicts, diff
    from spark_reconcile.spark import session

    reports, day = Place.at(settings.reports), _date(arguments, settings, clock)
    old, new = runs.find(reports, day, arguments.old), runs.find(reports, day, arguments.new)
    changed = Place.at(arguments.out) / "changed.parquet" if arguments.out else None
    if changed is not None and changed.exists():
        raise BadRunRequest("The folder already has changed documents, perhaps of other runs.", folder=str(changed))
    spark = session.start(master=arguments.master, memory=arguments.memory)
    with session.semq_errors():
        difference = diff(spark, old, new)
        if changed is not None:
            changed_verdicts(spark, old, new).write.parquet(changed.uri)
            changed.make_reproducible()
    for move in difference["moves"]:
        _print_message("{messages:>12,}  {old} -> {new}".format(**move))
    _print_message(f"{difference['changed']:,} documents changed")
    return 0, difference


def _extract(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile.extracts.extraction import extract

    return extract(arguments, settings, clock, _print_message)


def _collect(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile.extracts.extraction import collect

    return collect(arguments, settings, clock, _print_message)


def _apply(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile.repair.acts import apply

    day = None if arguments.list else _date(arguments, settings, clock)
    return apply(arguments, settings, day, clock, _print_message)


def _plant(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> CommandResult:
    from spark_reconcile.extracts.defects import plant
    from spark_reconcile.extracts.signatures import signer_of_node
    from spark_reconcile.node import node_settings

    day = _date(arguments, settings, clock)
    nodes = [node_settings(config) for config in arguments.signed_by]
    signers = {str(node.address): signer_of_node(node) for node in nodes}
    defects = plant(Place.at(settings.extracts), day, settings.calendar, clock, signers)
    for defect in defects:
        _print_message(f"{defect.verdict:<20}{defect.lk0}  {defect.how}")
    return 0, {"business_date": day.isoformat(), "planted": [defect._asdict() for defect in defects]}


COMMANDS = (
    ReconcileCommand("run", _run, ("--business-date", *_RUN_OPTIONS),
                     "reconcile one business date and publish the report"),
    ReconcileCommand("backfill", _backfill, ("--from", "--to", "--only-missing", *_RUN_OPTIONS),
                     "reconcile dates, oldest first"),
    ReconcileCommand("nightly", _nightly, _RUN_OPTIONS,
                     "what a timer starts each night: run the last dates that are missing or have late extracts, "
                     "remove what need not be kept, send the report"),
    ReconcileCommand("schedule", _schedule, _RUN_OPTIONS,
                     "stay, and begin `nightly` every day at `at` of [reconcile]; for machines without timers"),
    ReconcileCommand("status", _status, (), "list the runs of every date; a star marks the current one"),
    ReconcileCommand("diff", _diff, ("--business-date", *_SPARK_OPTIONS, "--out", "old", "new"),
                     "compare two runs of a date"),
    ReconcileCommand("extract", _extract, ("--business-date", "--nightly", "--database-url", "--node", "--store",
            "--role", "--salt-file", "--type-in-clear"),
            "extract a node's ledger of a date as Parquet; without --node, also deliver it if a target is configured"),
    ReconcileCommand("collect", _collect, ("--node", "--user", "--idle"), "take delivered extracts out of an inbox"),
    ReconcileCommand("apply", _apply, ("--business-date", "--run", "--list", "--node", "--yes"),
            "repair exceptions at a node through the protocol; without --yes only print what would be done"),
    ReconcileCommand("plant", _plant, ("--business-date", "--signed-by"),
            "plant defects into small extracts, to test that a run finds them"),
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = argparse.ArgumentParser("semq reconcile", description=DESCRIPTION, epilog=EXIT_STATUSES)
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.help)
        for option in (*command.options, *_COMMON_OPTIONS):
            subparser.add_argument(option, **OPTIONS[option])
        subparser.set_defaults(function=command.function)
    return root


def main(arguments: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Run the command and return its exit code. Usage errors raise SystemExit(2)."""
    parsed = parser().parse_args(arguments)
    parsed.given = list(sys.argv[1:] if arguments is None else arguments)[1:]  # without the name of the command
    if parsed.config is None and (config := os.environ.get(CONFIG_VARIABLE)):
        parsed.config = Path(config)
    code: int
    try:
        code, facts = _run_command(parsed, clock or SystemClock())
    except SemqError as error:
        _print_message(error.advice())
        code = exit_code_of(error)
        facts = _error_result(outcome_of(error), code, str(error))
    except Exception as error:  # a defect of this program
        if parsed.json:
            print(json.dumps(_error_result("failed", 1, type(error).__name__)))
        raise
    if parsed.json:
        print(json_text(facts))
    return code


def _run_command(arguments: Arguments, clock: Clock) -> CommandResult:
    try:
        result: CommandResult = arguments.function(arguments, _settings(arguments), clock)
    except OSError as error:
        raise StorageAway(why=str(error)[:500]) from error
    return result


def _error_result(outcome: str, code: int, error: str) -> runs.Facts:
    return {"outcome": outcome, "exit_code": code, "messages": 0, "verdicts": {}, "report": "", "error": error}


def exit_code_of(error: SemqError) -> int:
    """Return the exit code of an error: its ``exit_code``, else 78, 69 or 1 by its base class."""
    stated = getattr(error, "exit_code", None)
    if stated is not None:
        return int(stated)
    if isinstance(error, Misconfigured):
        return 78
    return 69 if isinstance(error, Unavailable) else 1


def outcome_of(error: SemqError) -> str:
    """Return the word for the outcome of a command that ended with this error."""
    if isinstance(error, SourcesMissing):
        return "sources_missing"
    if isinstance(error, BeingRun):
        return "being_run"
    return "refused" if isinstance(error, BadExtract) else "failed"


def _settings(arguments: Arguments) -> ReconcileSettings:
    settings = load(arguments.config)
    options = {name: getattr(arguments, name) for name in ("extracts", "reports", "zone", "cutoff")}
    settings = msgspec.structs.replace(settings, **{name: text for name, text in options.items() if text is not None})
    _ = settings.calendar  # raises for an unknown zone or cut-off
    return settings


def _date(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> date:
    return which_date(arguments.business_date, settings.calendar, clock)
