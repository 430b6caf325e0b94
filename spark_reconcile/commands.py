"""The command line of the reconciliation: ``semq reconcile`` and ``python -m spark_reconcile``.

``main`` takes the arguments and returns the exit code. With ``--json`` the last line on stdout is one JSON object;
messages go to stderr.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec

from semq.clock import Clock, SystemClock
from semq.errors import Misconfigured, SemqError, Unavailable
from semq.foreign_text import json_text, shown
from spark_reconcile.days import parse_date, which_date
from spark_reconcile.errors import BadRunRequest, StorageAway
from spark_reconcile.run import runs
from spark_reconcile.settings import ReconcileSettings, load
from spark_reconcile.storage import Place

Arguments = argparse.Namespace
CONFIG = "SEMQ_CONFIG"  # the same variable as for other commands
WORDS = "Compare what sender, hub and receiver recorded of each message of a business date."
STATUSES = (
    "exit status: 0 published and good, or done; 3 a threshold is exceeded, or the volume cannot be believed; 4 a "
    "required source or a run is missing; 5 another process runs this date; 7 published without some sources; 65 an "
    "extract or a repair list is unusable; 2 usage; 69 something is unavailable; 78 settings; 1 refused or failed"
)


@dataclass(frozen=True, slots=True)
class ReconcileCommand:
    """A row of the table of commands."""

    name: str
    does: Callable[[Arguments, ReconcileSettings, Clock], tuple[int, Any]]
    options: tuple[str, ...]
    words: str


# Options: name, arguments of argparse.
OPTIONS: dict[str, dict[str, Any]] = {
    "--config": {"type": Path, "metavar": "FILE", "help": "the node's TOML file, with the settings in [reconcile]; "
                 f"default: {CONFIG}"},
    "--extracts": {"metavar": "FOLDER", "help": "folder or address of the extracts"},
    "--reports": {"metavar": "FOLDER", "help": "where the runs lie"},
    "--zone": {"metavar": "ZONE", "help": "time zone of business dates"},
    "--cutoff": {"metavar": "HH:MM", "help": "time of day at which a business date ends"},
    "--json": {"action": "store_true", "help": "print one JSON object at the end"},
    "--business-date": {"metavar": "DATE", "help": "such as 2026-11-20, or today; default: the last completed date"},
    "--from": {"metavar": "DATE", "dest": "first", "required": True, "help": "first business date"},
    "--to": {"metavar": "DATE", "dest": "last", "required": True, "help": "last business date"},
    "--only-missing": {"action": "store_true", "help": "skip published dates"},
    "--allow-partial": {"action": "store_true", "help": "ignore extracts that are missing or unusable"},
    "--require-all": {"action": "store_true", "help": "do nothing unless all nodes in the ledgers have delivered"},
    "--master": {"metavar": "URL", "help": "Spark master; default: local[*], unless under spark-submit"},
    "--memory": {"metavar": "SIZE", "help": "heap of a local run, such as 4g"},
    "--database-url": {"metavar": "URL", "help": "the node's database; default: SEMQ_DATABASE_URL"},
    "--node": {"metavar": "NODE", "help": "extract: the node of the ledger, such as 1.10008, without --config; "
               "collect, apply: amqp://user:password@host:port"},
    "--nightly": {"action": "store_true", "help": "all completed dates of the last week that have no extract yet"},
    "--user": {"default": "", "metavar": "NAME", "help": "user of the institution whose inbox is read"},
    "--idle": {"type": float, "default": 10.0, "metavar": "S", "help": "end when nothing has arrived for this time"},
    "--run": {"default": "current", "metavar": "NAME", "help": "run with the repair list; default: the current one"},
    "--list": {"metavar": "FOLDER", "help": "a copied repair folder, instead of date and run"},
    "--yes": {"action": "store_true", "help": "do it"},
    "--store": {"metavar": "ID.ID", "default": "1.1", "help": "semq_id.semq_db_id"},
    "--role": {"choices": ("local", "platform"), "default": "local", "help": "kind of the node"},
    "--salt-file": {"type": Path, "metavar": "FILE", "help": "secret for the hashes of AppKeys; default: no hashes"},
    "--type-in-clear": {"action": "store_true", "help": "include domain, type and subtype of AppKeys in clear"},
    "--messages": {"type": int, "default": 10_000, "metavar": "N", "help": "number of messages to invent"},
    "--nodes": {"type": int, "default": 8, "metavar": "N", "help": "how many institutions"},
    "--signed-by": {"action": "append", "default": [], "type": Path, "metavar": "FILE",
                    "help": "a node's TOML file: its key signs what is planted into its extract; repeatable"},
    "--truth": {"metavar": "FOLDER", "default": "var/truth", "help": "folder of the true verdicts"},
    "--out": {"metavar": "FOLDER", "help": "folder for all changed messages, as Parquet"},
    "old": {"help": "name of a run, or current"},
    "new": {"help": "name of a run, or current"},
}  # fmt: skip
_PLACES = ("--config", "--extracts", "--reports", "--zone", "--cutoff", "--json")
_SPARK = ("--master", "--memory")
_RUN = ("--allow-partial", "--require-all", *_SPARK)


def _say(text: str) -> None:
    print(shown(text), file=sys.stderr)


def _run(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    result = _reconcile(_date(arguments, settings, clock), arguments, settings, clock)
    counts = ", ".join(f"{name} {count:,}" for name, count in result.verdicts.items() if count)
    _say(f"{result.business_date}: {result.outcome}; {result.messages:,} messages: {counts or 'none'}")
    _say(f"report: {result.report}")
    return result.exit_code, result.facts()


def _reconcile(day: date, arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> Any:
    # Spark is imported on first use, so that `status` and `--help` answer immediately.
    from spark_reconcile.extracts.signatures import signer_of, verifier
    from spark_reconcile.progress import Progress
    from spark_reconcile.run.job import RunRequest, run

    request = RunRequest(
        day,
        arguments.allow_partial,
        arguments.require_all,
        verify=verifier(Path(settings.trust), clock) if settings.trust else None,
        sign=signer_of(arguments.config),
        master=arguments.master,
        memory=arguments.memory,
    )
    return run(settings, request, clock, Progress(clock))


def _backfill(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    first, last = parse_date(arguments.first), parse_date(arguments.last)
    if last < first or (last - first).days > 3660:
        raise BadRunRequest("The dates are not in order, or too many.", first=str(first), last=str(last))
    done: list[dict[str, Any]] = []
    for day in (first + timedelta(days=step) for step in range((last - first).days + 1)):
        if arguments.only_missing and runs.current(Place.at(settings.reports), day) is not None:
            done.append({"business_date": day.isoformat(), "outcome": "kept", "exit_code": 0})
        else:
            done.append(_one_of_many(day, arguments, settings, clock))
        _say("{business_date}: {outcome}".format(**done[-1]))
    codes = [int(one["exit_code"]) for one in done if one["exit_code"]]
    code = _together(codes)
    return code, {"outcome": "good" if code == 0 else "not_good", "exit_code": code, "runs": done}


def _together(codes: Sequence[int]) -> int:
    """Return one exit code for several dates: the common one, else that of an exceeded threshold."""
    return codes[0] if len(set(codes)) == 1 else 3 if codes else 0


def _one_of_many(day: date, arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = _reconcile(day, arguments, settings, clock).facts()
    except SemqError as error:
        _say(error.advice())
        return {"business_date": day.isoformat(), "outcome": outcome_of(error), "exit_code": exit_code_of(error)}
    return {
        name: facts[name] for name in ("business_date", "outcome", "exit_code", "run", "messages", "verdicts", "report")
    }


def _status(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    reports = Place.at(settings.reports)
    dates = []
    for day in runs.dates(reports):
        standing = runs.current(reports, day)
        made = [
            {"run": run.name, **{name: run.result.get(name) for name in ("outcome", "exit_code", "messages", "error")}}
            for run in runs.of_date(reports, day)
        ]
        dates.append({"business_date": day.isoformat(), "current": standing.name if standing else None, "runs": made})
        for one in made:
            counts = "*" if standing and one["run"] == standing.name else " "
            _say(f"{day} {counts} {one['run']} {one['outcome'] or 'unfinished'} {one['messages'] or 0:,}")
    if not dates:
        _say(f"There are no runs in {reports}.")
    return 0, {"dates": dates}


def _diff(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    from spark_reconcile.run.diff import changed_verdicts, diff
    from spark_reconcile.spark import session

    reports, day = Place.at(settings.reports), _date(arguments, settings, clock)
    old, new = runs.find(reports, day, arguments.old), runs.find(reports, day, arguments.new)
    changed = Place.at(arguments.out) / "changed.parquet" if arguments.out else None
    if changed is not None and changed.exists():
        raise BadRunRequest("The folder already has changed messages, perhaps of other runs.", folder=str(changed))
    spark = session.start(master=arguments.master, memory=arguments.memory)
    with session.semq_errors():
        found = diff(spark, old, new)
        if changed is not None:
            changed_verdicts(spark, old, new).write.parquet(changed.uri)
            changed.number_parts()
    for move in found["moves"]:
        _say("{messages:>12,}  {old} -> {new}".format(**move))
    _say(f"{found['changed']:,} messages changed")
    return 0, found


def _extract(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    from spark_reconcile.extracts.extraction import extract

    return extract(arguments, settings, clock, _say)


def _collect(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    from spark_reconcile.extracts.extraction import collect

    return collect(arguments, settings, clock, _say)


def _apply(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    from spark_reconcile.repair.acts import apply

    day = None if arguments.list else _date(arguments, settings, clock)
    return apply(arguments, settings, day, clock, _say)


def _generate(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    from spark_reconcile.samples.invention import generate

    if arguments.messages < 0 or not 2 <= arguments.nodes <= 500:
        raise BadRunRequest("The number of institutions is 2 to 500, and the number of messages is not negative.")
    day = _date(arguments, settings, clock)
    extracts, truth = Place.at(settings.extracts), Place.at(arguments.truth)
    made = generate(extracts, truth, day, settings.calendar, clock, arguments.messages, nodes=arguments.nodes)
    _say(f"{day}: {made.messages:,} messages, {made.rows:,} lines, in {extracts}; the truth in {truth}")
    return 0, {
        "business_date": day.isoformat(),
        "messages": made.messages,
        "rows": made.rows,
        "verdicts": made.verdicts,
    }


def _plant(arguments: Arguments, settings: ReconcileSettings, clock: Clock) -> tuple[int, Any]:
    from spark_reconcile.extracts.signatures import signer
    from spark_reconcile.node import node_settings
    from spark_reconcile.samples.defects import plant

    day = _date(arguments, settings, clock)
    nodes = [node_settings(config) for config in arguments.signed_by]
    signs = {str(node.address): signer(node) for node in nodes}
    done = plant(Place.at(settings.extracts), day, settings.calendar, clock, signs)
    for one in done:
        _say(f"{one.verdict:<20}{one.lk0}  {one.how}")
    return 0, {"business_date": day.isoformat(), "planted": [one._asdict() for one in done]}


COMMANDS = (
    ReconcileCommand("run", _run, ("--business-date", *_RUN), "reconcile one business date and publish the report"),
    ReconcileCommand("backfill", _backfill, ("--from", "--to", "--only-missing", *_RUN),
                     "reconcile dates, oldest first"),
    ReconcileCommand("status", _status, (), "list the runs of every date; a star marks the current one"),
    ReconcileCommand("diff", _diff, ("--business-date", *_SPARK, "--out", "old", "new"),
                     "compare two runs of a date"),
    ReconcileCommand("extract", _extract, ("--business-date", "--nightly", "--database-url", "--node", "--store",
            "--role", "--salt-file", "--type-in-clear"),
            "extract a node's ledger of a date as Parquet, and deliver it"),
    ReconcileCommand("collect", _collect, ("--node", "--user", "--idle"), "take delivered extracts out of an inbox"),
    ReconcileCommand("apply", _apply, ("--business-date", "--run", "--list", "--node", "--yes"),
            "repair exceptions at a node through the protocol; without --yes only print what would be done"),
    ReconcileCommand("generate", _generate, ("--business-date", "--messages", "--nodes", "--truth"),
            "invent ledgers with known defects"),
    ReconcileCommand("plant", _plant, ("--business-date", "--signed-by"),
            "plant some defects in small extracts, to test that they are found"),
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the parser, built from the tables."""
    made = argparse.ArgumentParser("semq reconcile", description=WORDS, epilog=STATUSES)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        own = commands.add_parser(command.name, help=command.words, description=command.words)
        for option in (*command.options, *_PLACES):
            own.add_argument(option, **OPTIONS[option])
        own.set_defaults(does=command.does)
    return made


def main(arguments: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Run the command and return its exit code. Usage errors exit with 2, as in argparse."""
    given = parser().parse_args(arguments)
    if given.config is None and (stated := os.environ.get(CONFIG)):
        given.config = Path(stated)
    code: int
    try:
        code, facts = _do(given, clock or SystemClock())
    except SemqError as error:
        _say(error.advice())
        code = exit_code_of(error)
        facts = _nothing(outcome_of(error), code, str(error))
    except Exception as error:  # a defect of this program: the interpreter prints the traceback and exits with 1
        if given.json:
            print(json.dumps(_nothing("failed", 1, type(error).__name__)))
        raise
    if given.json:
        print(json_text(facts))
    return code


def _do(given: Arguments, clock: Clock) -> tuple[int, Any]:
    try:
        done: tuple[int, Any] = given.does(given, _settings(given), clock)
    except OSError as error:
        raise StorageAway(why=str(error)[:500]) from error
    return done


def _nothing(outcome: str, code: int, error: str) -> dict[str, Any]:
    """Return the JSON result of a command that did nothing."""
    return {"outcome": outcome, "exit_code": code, "messages": 0, "verdicts": {}, "report": "", "error": error}


def exit_code_of(error: SemqError) -> int:
    """Return the exit code of an error: its own, else that of its base class."""
    own = getattr(error, "exit_code", None)
    if own is not None:
        return int(own)
    return 78 if isinstance(error, Misconfigured) else 69 if isinstance(error, Unavailable) else 1


def outcome_of(error: SemqError) -> str:
    """Return the outcome of a command that ended without a result."""
    return {4: "sources_missing", 5: "being_run", 65: "refused"}.get(exit_code_of(error), "failed")


def _settings(given: Arguments) -> ReconcileSettings:
    settings = load(given.config)
    stated = {name: getattr(given, name) for name in ("extracts", "reports", "zone", "cutoff")}
    changed = msgspec.structs.replace(settings, **{name: value for name, value in stated.items() if value is not None})
    _ = changed.calendar
    return changed


def _date(given: Arguments, settings: ReconcileSettings, clock: Clock) -> date:
    return which_date(given.business_date, settings.calendar, clock)
